// Pictures as files. Styles from the sheet are written into the copy, so that it looks the same elsewhere.

const STYLES = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "font-family", "font-size",
  "font-weight", "font-style", "text-anchor", "dominant-baseline", "visibility", "display", "marker-end", "paint-order",
];

function withStyles(svg) {
  const copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, index) => {
    const computed = getComputedStyle(from[index]);
    for (const name of STYLES) element.style.setProperty(name, computed.getPropertyValue(name));
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  return copy;
}

/** The picture as SVG text; a canvas is put inside one as an image. */
export function svgOf(picture) {
  if (picture instanceof SVGSVGElement) return new XMLSerializer().serializeToString(withStyles(picture));
  const { width, height } = picture;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">` +
    `<image href="${picture.toDataURL()}" width="${width}" height="${height}"/></svg>`
  );
}

/** The picture as PNG, at twice its size on the page, on white. */
export async function pngOf(picture) {
  if (picture instanceof HTMLCanvasElement) return blobOf(picture);
  const { width, height } = picture.getBoundingClientRect();
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return blobOf(canvas);
}

const blobOf = (canvas) => new Promise((resolve) => canvas.toBlob(resolve, "image/png"));

/** Hand a file to the reader. */
export function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
