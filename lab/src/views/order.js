// Why order needs a memory: the same three words added up, and read one after another.
import { html } from "../html.js";
import { announce, useView } from "../state.js";
import { t } from "../i18n.js";
import { fixed, plain, subscript } from "../numbers.js";
import { bagOfWords, readInOrder, READERS } from "../math.js";
import { Arithmetic } from "../parts/Arithmetic.js";
import { Chart, Plot } from "../parts/Chart.js";
import { Button, Controls, Choice } from "../parts/controls.js";
import { Figure } from "../parts/Figure.js";
import { Prose } from "../parts/Note.js";

const ORDERS = ["dog-bites-man", "man-bites-dog", "dog-man-bites", "man-dog-bites", "bites-dog-man", "bites-man-dog"];
const DEFAULTS = { order: ORDERS[0] };
const LIMITS = { order: ORDERS };

const sentence = (order) => {
  const [a, b, c] = order.split("-").map((word) => t(`order.${word}`));
  return t("order.words", { a, b, c });
};
const last = (states) => states[states.length - 1];
const bracketed = (x) => (x < 0 ? `(${fixed(x)})` : fixed(x));

const readingOf = (order) => {
  const words = order.split("-");
  return { order, text: sentence(order), bag: bagOfWords(words), states: readInOrder(words) };
};

function bagLine({ order, bag }) {
  const words = order.split("-");
  const terms = words.flatMap((word, index) => [
    ...(index ? [" + "] : []),
    { text: bracketed(READERS.W[0] * READERS.words[word][0] + READERS.W[1] * READERS.words[word][1]), role: "W" },
  ]);
  return [`${t("order.bag")}: tanh(`, ...terms, ") = ", { text: fixed(bag), name: "bag", value: bag }];
}

function stateLines({ order, states }) {
  return order.split("-").map((word, index) => {
    const input = READERS.W[0] * READERS.words[word][0] + READERS.W[1] * READERS.words[word][1];
    const before = index ? states[index - 1] : 0;
    return [
      `${t(`order.${word}`)}: h${subscript(index + 1)} = tanh(`, { text: bracketed(input), role: "W" }, " + ",
      { text: `${plain(READERS.U)}·${bracketed(before)}`, role: "U" }, ") = ",
      { text: fixed(states[index]), name: `h${index + 1}`, value: states[index] },
    ];
  });
}

function drawing(readings, chosen) {
  const rows = readings.map((reading) => ({ ...reading, end: last(reading.states) }));
  return {
    height: 280,
    marginLeft: 120,
    marginBottom: 42,
    x: { domain: [-1, 1], grid: true, label: t("order.output"), labelAnchor: "center", labelArrow: "none" },
    y: { domain: rows.map(({ text }) => text), label: null },
    marks: [
      Plot.ruleX([0]),
      Plot.ruleY([chosen], { stroke: "#c9d1d9", strokeWidth: 22, strokeOpacity: 0.5 }),
      Plot.dot(rows, { x: "bag", y: "text", symbol: "square", r: 6, fill: "#555" }),
      Plot.dot(rows, { x: "end", y: "text", symbol: "diamond", r: 7, fill: "#B84A00" }),
    ],
  };
}

function View() {
  const [{ order }, set] = useView("order", DEFAULTS, LIMITS);
  const readings = ORDERS.map(readingOf);
  const reading = readings[ORDERS.indexOf(order)];
  const choose = (to) => {
    const found = readingOf(to);
    set({ order: to });
    announce(t("order.say", { sentence: found.text, bag: fixed(found.bag), end: fixed(last(found.states)) }));
  };
  const table = {
    caption: t("order.table"),
    columns: [t("order.sentence"), t("order.bag"), t("order.rnn")],
    rows: readings.map(({ text, bag, states, order: key }) => [
      text,
      { text: fixed(bag), value: bag, name: `bag-${key}` },
      { text: fixed(last(states)), value: last(states), name: `end-${key}` },
    ]),
  };
  return html`
    <${Prose} keys=${["order.intro"]} />
    <${Controls} label=${t("order.choose")}>
      <${Choice} legend=${t("order.choose")} name="order" value=${order} onChoose=${choose} options=${ORDERS.map((key) => [key, sentence(key)])} />
      <${Button} onClick=${() => choose(order.split("-").reverse().join("-"))} data-do="turn">${t("order.turn")}<//>
    <//>
    <p class="big">${reading.text}</p>
    <${Arithmetic} label=${t("order.bag")} parts=${bagLine(reading)} />
    ${stateLines(reading).map((parts, index) => html`<${Arithmetic} key=${index} label=${t("order.rnn")} parts=${parts} />`)}
    <${Figure} name="orders" title=${t("order.figure")} table=${table} note=${t("order.legend")}>
      <${Chart} name="orders" label=${t("order.figure")} options=${() => drawing(readings, reading.text)} />
    <//>
    <${Prose} keys=${["order.exact"]} />
  `;
}

export const view = { id: "order", group: "basics", needs: () => true, View };
