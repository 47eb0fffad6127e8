// What the page of a running job and the report of one that is over draw with.
// Whatever a job says is text here (textContent), never markup.
const SVG = "http://www.w3.org/2000/svg";
const at = id => document.getElementById(id);

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// --- numbers as people read them -------------------------------------------

const known = x => typeof x === "number" && isFinite(x);

function short(x, digits = 3) {
  if (!known(x)) return "–";
  const size = Math.abs(x);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= limit) return (x / (limit === 1e4 ? 1e3 : limit))
      .toPrecision(digits) + unit;
  return size >= 1000 || Number.isInteger(x) ? x.toFixed(0)
    : x.toPrecision(digits);
}

const whole = x => known(x) ? x.toLocaleString("en") : "–";

function bytes(x) {
  if (!known(x)) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (x < 1024) return short(x) + " " + unit;
    x /= 1024;
  }
  return short(x) + " TiB";
}

function duration(s) {
  if (!known(s)) return "–";
  const two = x => String(Math.floor(x)).padStart(2, "0");
  return s >= 3600 ? Math.floor(s / 3600) + ":" + two(s / 60 % 60) + ":"
    + two(s % 60) : Math.floor(s / 60) + ":" + two(s % 60);
}

const clock = ms => new Date(ms).toTimeString().slice(0, 8);

// --- curves ------------------------------------------------------------------

function svg(parent, name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes))
    made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}

// points: [ms, step, loss, samples/s]; when: of ms, in words; marks: ms at which
// something happened, and what.
function curve(id, all, column, when, marks = []) {
  const picture = at(id), wide = picture.clientWidth || 600, high = 190;
  const left = 48, right = wide - 8, top = 8, bottom = high - 22;
  picture.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  picture.replaceChildren();
  const points = all.filter(p => known(p[column]));
  if (points.length === 0) {
    svg(picture, "text", {x: left, y: high / 2}, "nothing yet");
    return;
  }
  let low = Infinity, most = -Infinity;
  for (const p of points) {
    low = Math.min(low, p[column]);
    most = Math.max(most, p[column]);
  }
  if (low >= 0 && low < 0.3 * most) low = 0;
  if (most === low) most = low + (Math.abs(low) || 1) * 0.1;
  const first = points[0][0], last = points[points.length - 1][0];
  const x = t => left + (right - left) * (last > first
    ? (t - first) / (last - first) : 1);
  const y = v => bottom - (bottom - top) * (v - low) / (most - low);
  for (let i = 0; i <= 3; ++i) {
    const value = low + (most - low) * i / 3;
    svg(picture, "line", {class: "grid", x1: left, x2: right, y1: y(value),
                          y2: y(value)});
    svg(picture, "text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"},
        short(value));
  }
  svg(picture, "text", {x: left, y: high - 6}, "step " + points[0][1] + ", "
      + when(first));
  svg(picture, "text", {x: right, y: high - 6, "text-anchor": "end"},
      "step " + points[points.length - 1][1] + ", " + when(last));
  for (const [ms, what] of marks)
    if (ms >= first && ms <= last)
      svg(svg(picture, "line", {class: "mark", x1: x(ms), x2: x(ms), y1: top,
                                y2: bottom}), "title", {}, what);
  svg(picture, "polyline", {points: points.map(p => x(p[0]).toFixed(1) + ","
    + y(p[column]).toFixed(1)).join(" ")});
  const mark = svg(picture, "circle", {r: 3, visibility: "hidden"});
  picture.onmousemove = event => {
    const here = event.clientX - picture.getBoundingClientRect().left;
    let best = points[0];
    for (const p of points)
      if (Math.abs(x(p[0]) - here) < Math.abs(x(best[0]) - here)) best = p;
    mark.setAttribute("cx", x(best[0]));
    mark.setAttribute("cy", y(best[column]));
    mark.setAttribute("visibility", "visible");
    at(id + "-at").textContent = short(best[column], 4) + " at step " + best[1];
  };
  picture.onmouseleave = () => {
    mark.setAttribute("visibility", "hidden");
    at(id + "-at").textContent = "";
  };
}

// --- words and bars -------------------------------------------------------------

// fields: [value, name]
function show_boxes(id, fields) {
  at(id).replaceChildren(...fields.map(([value, name]) => {
    const box = element("div");
    box.append(element("b", value), element("span", name, "faint"));
    return box;
  }));
}

// fields: [name, value]
function show_facts(id, fields) {
  at(id).replaceChildren(...fields.map(([name, value]) => {
    const fact = element("div");
    fact.append(element("dt", name), element("dd", value));
    return fact;
  }));
}

// parts: [kind, length, what it is in words]; whole: how long the bar is.
function part_bar(name, parts, whole, sum) {
  const bar = element("div", undefined, "bar");
  const row = element("div", undefined, "parts");
  for (const [kind, length, words] of parts) {
    const part = element("i", undefined, kind);
    part.style.width = 100 * length / whole + "%";
    part.title = words;
    row.appendChild(part);
  }
  bar.append(element("span", name), row, element("span", sum));
  return bar;
}

// entries: [ms, kind, text] or [ms, text]
function show_texts(id, entries, when) {
  const list = at(id), below = list.scrollHeight - list.scrollTop
    - list.clientHeight < 30;
  const items = entries.map(entry => {
    const item = element("li", undefined, entry.length > 2 ? entry[1] : "");
    item.appendChild(element("time", when(entry[0])));
    if (entry.length > 2) item.appendChild(element("b", entry[1]));
    item.appendChild(element("span", entry[entry.length - 1]));
    return item;
  });
  list.replaceChildren(...(items.length ? items
    : [element("li", "nothing so far", "faint")]));
  if (below) list.scrollTop = list.scrollHeight;
}
