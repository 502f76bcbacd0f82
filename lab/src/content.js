// What the page was given: `content` (texts, equations, quiz, glossary; the same in every page) and `data` (of this page).

const read = (id) => JSON.parse(document.getElementById(id).textContent);

export const content = read("content");
export const data = read("data");
