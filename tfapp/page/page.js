
"use strict";
// Shows the document in #data, and newer documents as they arrive. All content of a document is
// shown as text, never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";
const MOST_ROWS = 300; // of a list that are shown
const MANY = 30; // up to so many instances and exports, tables are shown open
const MOST_FOUND = 50; // instances that a search shows
const LINES = 8, DASHES = ["", "7 4", "2 4"]; // colours of lines, and how those of one colour differ
const QUANTITIES = {
  cpu: "processors in use", memory: "memory, MiB", gpu: "GPUs in use", steps_per_second: "steps per second",
};
const ORDERS = { // words -> the number by which instances are sorted; what has none comes last
  "by name": null, "fewest steps first": (one) => one.step, "slowest first": (one) => one.speed,
  "least processor first": (one) => one.usage && one.usage.cpu_share,
  "most memory first": (one) => one.usage && -one.usage.memory_share,
  "most restarts first": (one) => -one.restarts,
};
const SHAPES = { // a sign and a class for each state: readable without colours
  RUNNING: ["\u25b6", "busy"], SUCCEEDED: ["\u2714", "good"], FAILED: ["\u2716", "bad"],
  LOST: ["\u2716", "bad"], KILLED: ["\u25a0", "wait"], STOPPED: ["\u25a0", "calm"],
  STOPPING: ["\u25a1", "wait"], WAITING: ["\u2026", "wait"], REQUESTED: ["\u25cb", "wait"],
  FORMING: ["\u2026", "wait"], ACCEPTED: ["\u25cb", "wait"], DAMAGED: ["\u2716", "bad"],
  SUSPENDED: ["\u25a1", "wait"],
};
const TROUBLE = ["FAILED", "LOST"];

const root = document.getElementById("page");
let doc = JSON.parse(document.getElementById("data").textContent);
let clock = 0; // seconds that the server's clock is ahead of this one
let shownLog = doc.logs && doc.logs.length ? doc.logs[0].instance : "";
let wanted = ""; // the words that are looked for in a list
let order = "by name"; // of instances
let quantity = ""; // the samples that are shown
let searched = ""; // the words that are looked for in logs
let everywhere = false; // in all logs
let stacks = null; // those that were asked for last, or traces: a sentence, or as the server tells them
const hidden = new Set(); // lines that are not, by the names of their series
const drawn = new Map(); // id of a section -> the data that it was drawn from

// ---- making elements ------------------------------------------------------------------------

function make(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

function draw(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

function link(address, text) {
  if (!/^https?:\/\//i.test(address)) return make("span", {}, text);
  return make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, text);
}

function state(name, big) {
  const [shape, kind] = SHAPES[name] || ["?", "calm"];
  return make("span", { class: `state ${kind}${big ? " big" : ""}` }, `${shape} ${name}`);
}

// ---- numbers and times in words -------------------------------------------------------------

function long(seconds) {
  const left = Math.max(Math.round(seconds), 0);
  const two = (n) => String(n).padStart(2, "0");
  if (left < 60) return `${left}s`;
  if (left < 3600) return `${Math.floor(left / 60)}m${two(left % 60)}s`;
  if (left < 86400) return `${Math.floor(left / 3600)}h${two(Math.floor(left % 3600 / 60))}m`;
  return `${Math.floor(left / 86400)}d${two(Math.floor(left % 86400 / 3600))}h`;
}

function at(seconds) {
  return seconds < 60 ? `+${Math.max(seconds, 0).toFixed(1)} s` : `+${long(seconds)}`;
}

function when(seconds) {
  if (!seconds) return "\u2013";
  const date = new Date(seconds * 1000);
  const two = (n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function number(value) {
  const found = Number(value);
  if (!Number.isFinite(found)) return String(value);
  if (found !== 0 && (Math.abs(found) >= 1e6 || Math.abs(found) < 1e-3)) return found.toExponential(2);
  return String(Number(found.toPrecision(4)));
}

function several(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

function now() {
  return Date.now() / 1000 + clock;
}

function elapsed() { // seconds from the start to now, or to the end
  if (doc.live && doc.pause !== null) return now() - doc.started;
  return doc.updated - doc.started;
}

// ---- the sections of an application ---------------------------------------------------------

function head() {
  const facts = [
    ["engine", doc.engine], ["run", doc.run || ""], ["started", when(doc.started)],
    [doc.live ? "for" : "took", doc.started ? long(elapsed()) : ""],
    ["generation", doc.generation === null ? "unknown" : doc.generation],
    ["restarts", restarts()], ["saves to", doc.checkpoints],
    ["outputs", (doc.outputs || []).join("; ")], ["advice", (doc.advice || []).join("; ")],
    ["tags", doc.tags.join(", ")], ["id", doc.id],
  ];
  return make("header", {},
    make("div", { class: "title" }, make("h1", {}, doc.name), state(doc.state, true)),
    make("p", { class: "words", id: "words" }, doc.words),
    make("dl", { class: "facts" }, facts.filter(([, value]) => value !== "" && value !== null).map(
      ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value))))),
    progress());
}

function progress() { // of the instance that is the farthest from its end
  const shares = doc.instances.filter((one) => part(one) !== null);
  if (!doc.live || !shares.length) return null;
  const last = shares.reduce((a, b) => (part(b) < part(a) ? b : a));
  const words = [counted(last), last.speed === null ? "" : `${number(last.speed)} steps/s`,
    last.left ? `${long(last.left)} left` : ""].filter((text) => text).join(", ");
  return make("div", { class: "progress", id: "progress" },
    make("progress", { max: 1, value: part(last).toFixed(4), "aria-label": "progress" }), make("span", {}, words));
}

function part(one) {
  const known = one.step !== null && one.total && one.step >= 0 && one.step <= one.total;
  return known ? one.step / one.total : null;
}

function stalled() {
  const still = doc.instances.filter((one) => one.since !== null);
  if (!still.length) return null;
  const named = still.slice(0, 4).map((one) => `${one.name} since ${when(one.since)}`).join(", ");
  const more = still.length > 4 ? ` and ${still.length - 4} more` : "";
  return make("section", { class: "stale", id: "stalled", role: "status" },
    make("h2", {}, `\u25a0 No step: ${named}${more}`), doc.stalled ? make("p", {}, doc.stalled) : null);
}

function ways() {
  if (!doc.ways.length) return null;
  return make("nav", {}, doc.ways.map(([words, path]) => make("a", { href: path }, words)));
}

function restarts() {
  if (doc.restarts === null || doc.losses === null) return "unknown";
  const lost = doc.losses ? ` (${doc.losses} after losses)` : "";
  return `${doc.restarts + doc.losses}${lost}`;
}

function cause() {
  const found = doc.cause;
  if (!found || !(found.last_lines || found.instance)) return null;
  const where = found.host ? ` on ${found.host}` : "";
  const which = found.generation === null ? "" : ` in generation ${found.generation}`;
  return make("section", { class: "alert" },
    make("h2", {}, `\u2716 The cause: ${found.instance || "the application"}${where}${which}`,
      make("span", { class: "note" }, found.exit.text)),
    found.last_lines ? make("pre", { tabindex: 0 }, found.last_lines.trimEnd()) : null);
}

function links() {
  // Links to logs that are shown are with these logs.
  const found = doc.links.filter(
    (one) => one.what !== "log" || !(doc.log_names || []).includes(one.instance));
  if (!found.length) return null;
  return make("section", {}, make("h2", {}, "Links"),
    make("ul", {}, found.map((one) => make("li", {},
      make("b", {}, `${one.what}${one.instance ? ` of ${one.instance}` : ""} `),
      link(one.address, one.address),
      one.note ? make("div", { class: "faint" }, one.note) : null))));
}

function ran() {
  if (!doc.ran.length) return null;
  return make("section", { id: "ran" }, make("h2", {}, "What it runs"),
    make("dl", { class: "facts" }, doc.ran.map(
      ([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text)))));
}

function feed() {
  if (!doc.feed) return null;
  return make("section", { id: "feed" }, make("h2", {}, "Feed from Spark"), make("p", {}, doc.feed));
}

function instances() {
  const count = doc.instances.length;
  if (!count) return null;
  return make("section", {},
    make("h2", {}, "Instances", make("span", { class: "note" }, String(count))),
    count > MANY ? finder() : null, make("div", { id: "part-rows" }));
}

function rows() {
  const all = doc.instances;
  if (all.length <= MANY) return table(all);
  if (!wanted && !ORDERS[order]) return grouped(all);
  const shown = sorted(all.filter((one) => named(one, wanted))), more = shown.length - MOST_FOUND;
  return [table(shown.slice(0, MOST_FOUND)),
    more > 0 ? make("p", { class: "faint" }, `and ${several(more, "instance")} more`) : null];
}

function finder() {
  const box = make("input", { type: "search", id: "find-instance", "aria-label": "search", placeholder: "search name, host, state" });
  box.value = wanted;
  box.addEventListener("input", () => { wanted = box.value; show(); });
  const choice = chooser("order", Object.keys(ORDERS), order, (value) => { order = value; show(); });
  return make("div", { class: "bar" }, box, choice);
}

function chooser(id, names, chosen, choose) {
  const choice = make("select", { id, "aria-label": id }, names.map((name) =>
    make("option", { value: name, selected: name === chosen ? "" : null }, name)));
  choice.addEventListener("change", () => choose(choice.value));
  return choice;
}

function named(one, words) {
  const text = [one.name, one.host, one.role, one.state, noted(one)].join(" ").toLowerCase();
  return words.toLowerCase().split(" ").every((word) => text.includes(word));
}

function sorted(rows) {
  const by = ORDERS[order];
  if (!by) return rows;
  const key = (one) => (by(one) === null ? Infinity : by(one));
  return rows.map((one) => [key(one), one]).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)).map(([, one]) => one);
}

function grouped(all) {
  const groups = new Map(), parts = [];
  for (const one of all) {
    if (!groups.has(one.component)) groups.set(one.component, []);
    groups.get(one.component).push(one);
  }
  const trouble = all.filter((one) => TROUBLE.includes(one.state) || one.since !== null || one.name === doc.slow);
  if (trouble.length) {
    parts.push(make("h3", {}, `\u2716 ${trouble.length} in trouble`), table(trouble.slice(0, MOST_FOUND)));
  }
  for (const [component, members] of groups) {
    const counts = new Map();
    for (const one of members) counts.set(one.state, (counts.get(one.state) || 0) + 1);
    const words = [...counts].map(([name, count], i) => [`${i ? ", " : ""}${count} `, state(name)]).flat();
    const id = `of-${component}`, open = document.getElementById(id)?.open;
    const folded = make("details", { id },
      make("summary", {}, make("b", {}, `${component} `), several(members.length, "instance"), ": ", words),
      open ? table(members) : null);
    folded.addEventListener("toggle", () => {
      if (folded.open && !folded.querySelector("table")) folded.append(table(members));
    });
    parts.push(folded);
  }
  return parts;
}

function table(rows) {
  const known = (test) => rows.some(test);
  const columns = [
    ["instance", "name", (one) => [one.name, one.role === one.component ? null : make("div", { class: "faint" }, one.role)]],
    ["state", "", (one) => state(one.state)],
    known((one) => one.rows !== null) && ["rows", "number", (one) => (one.rows === null ? "" : one.rows.toLocaleString("en"))],
    known((one) => one.step !== null || one.epoch !== null) && ["step", "short", (one) => [bar(part(one)), counted(one),
      one.left ? make("div", { class: "faint" }, `${long(one.left)} left`) : null]],
    known((one) => Object.keys(one.metrics).length || one.speed !== null) && ["metrics", "measures", measures],
    known((one) => one.usage) && ["cpu", "short", (one) => one.usage && share(one.usage.cpu_share, one.usage.cpu)],
    known((one) => one.usage) && ["memory", "short", (one) => one.usage && share(one.usage.memory_share, one.usage.memory, 0.9)],
    known((one) => one.usage) && ["bytes", "short", (one) => one.usage && [`${one.usage.read} read`,
      make("div", {}, `${one.usage.written} written`)]],
    known((one) => one.usage && one.usage.gpu) && ["gpu", "short", (one) => one.usage && one.usage.gpu && share(one.usage.gpu_share, one.usage.gpu)],
    known((one) => one.restarts) && ["restarts", "number", (one) => String(one.restarts)],
    ["host", "host", (one) => one.host],
  ].filter(Boolean);
  const label = (name) => (["instance", "state", "host", "metrics"].includes(name) ? null : name);
  return make("table", {},
    make("thead", {}, make("tr", {}, columns.map(([name, kind]) =>
      make("th", { class: kind === "number" ? kind : null }, name)))),
    make("tbody", {}, rows.map((one) => [
      make("tr", { "data-instance": one.name },
        columns.map(([name, kind, cell]) => make("td", { class: kind || null, "data-label": label(name) }, cell(one)))),
      noted(one) && make("tr", { class: "note" }, make("td", { class: "free", colspan: columns.length }, noted(one)))]
      .filter(Boolean)).flat()));
}

function noted(one) {
  const slow = one.name === doc.slow ? "the others wait for it" : "";
  const still = one.since === null ? "" : `no step since ${when(one.since)}`;
  return [one.preparing || still || one.exit.split("\n")[0], slow].filter((text) => text).join("; ");
}

function bar(part, high) {
  return part === null ? null : make("meter", { max: 1, value: Math.min(part, 1).toFixed(3), high, optimum: high ? 0 : null });
}

function share(part, words, high) {
  return [bar(part, high), make("span", { title: words }, words.split(", peak")[0])];
}

function counted(one) {
  if (part(one) !== null) return `${one.step} of ${one.total} (${Math.floor(100 * part(one))} %)`;
  if (one.step !== null) return String(one.step);
  return one.epoch === null ? "" : `epoch ${one.epoch}`;
}

function measures(one) {
  const found = Object.entries(one.metrics).slice(0, 4).map(([name, value]) => `${name} ${number(value)}`);
  if (one.speed !== null) found.push(`${number(one.speed)} steps/s`);
  return found.map((text, i) => [make("span", {}, `${text}${i < found.length - 1 ? "," : ""}`), " "]).flat();
}

// ---- the history as a picture ---------------------------------------------------------------

function past() {
  const history = doc.history;
  if (!history.lanes.length) return null;
  return make("section", {},
    make("h2", {}, "History", make("span", { class: "note" },
      `${several(history.generations.length, "generation")}, ${several(history.marks.length, "failure")}`)),
    picture(history),
    make("div", { class: "legend" },
      make("span", {}, sign("runs"), "program runs"),
      make("span", {}, sign("forms"), "waits for the others"),
      history.marks.length ? make("span", {}, sign("mark"), "failure, by number") : null),
    history.marks.length ? make("ol", { id: "failures" }, history.marks.map((mark, i) => make("li", {},
      make("span", { class: "mark-number" }, `\u2716${i + 1}`),
      make("span", { class: "at" }, at(mark.at)), mark.text))) : null,
    make("details", { id: "moments" },
      make("summary", {}, `All ${several(doc.moments.length, "event")}`),
      make("ul", {}, doc.moments.map((moment) =>
        make("li", {}, make("span", { class: "at" }, at(moment.at)), moment.text)))));
}

function sign(kind) {
  const svg = draw("svg", { width: 22, height: 12, "aria-hidden": "true" });
  if (kind === "mark") svg.append(draw("path", { class: "mark", d: "M7 2l8 8m0-8l-8 8" }));
  else svg.append(draw("rect", { class: kind, x: 1, y: 2, width: 20, height: 8, rx: 2 }));
  return svg;
}

function picture(history) {
  const width = inner();
  const many = history.lanes.length > MANY;
  const room = 240 / history.lanes.length;
  const lane = !many ? 22 : room < 1 ? room : Math.floor(Math.min(room, 8));
  const names = many ? [...new Set(history.lanes.map((one) => component(one.instance)))]
    : history.lanes.map((one) => one.instance);
  const longest = Math.max(...names.map((name) => name.length));
  const left = Math.min(Math.max(longest * 7 + 12, 60), Math.floor(width * 0.3));
  const right = 12, top = 22, bottom = 22;
  const tops = []; // the top of each lane; between thin lanes, a component's name needs some room
  let floor = top, next = top;
  history.lanes.forEach((one, i) => {
    const begins = many && (!i || component(one.instance) !== component(history.lanes[i - 1].instance));
    if (begins) {
      next = Math.max(next + (i ? 6 : 0), floor);
      floor = next + 16;
    }
    tops.push(next);
    next += lane;
  });
  const height = Math.max(next, many ? floor : 0) + bottom;
  const end = Math.max(history.until === null ? elapsed() : history.until, history.since + 0.001);
  const x = (time) => left + (width - left - right) *
    Math.min(Math.max((time - history.since) / (end - history.since), 0), 1);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${several(history.generations.length, "generation")} of ${several(history.lanes.length, "instance")}` });

  let free = -1; // the right end of the text in the top line
  history.generations.forEach((generation, i) => {
    const from = x(generation.begins), to = x(generation.ends === null ? end : generation.ends);
    svg.append(draw("rect", { class: `band${i % 2 ? " odd" : ""}`, "data-generation": generation.number,
      x: from, y: 0, width: Math.max(to - from, 0.5), height: height - bottom },
      draw("title", {}, `generation ${generation.number} from ${at(generation.begins)}`)));
    svg.append(draw("line", { class: "edge", x1: from, x2: from, y1: 0, y2: height - bottom }));
    for (const text of [`generation ${generation.number}`, String(generation.number)]) {
      if (from + 4 > free && to - from > text.length * 6.6 + 6) {
        svg.append(draw("text", { class: "generation", x: from + 4, y: 15 }, text));
        free = from + 4 + text.length * 6.6;
        break;
      }
    }
  });

  let last = "";
  history.lanes.forEach((one, i) => {
    const y = tops[i], pad = lane > 8 ? 4 : lane > 4 ? 1 : lane > 2 ? 0.5 : 0;
    const label = many ? component(one.instance) : one.instance;
    if (label !== last) {
      const room = Math.floor((left - 8) / 6.8);
      const text = label.length > room ? `${label.slice(0, room - 1)}\u2026` : label;
      svg.append(draw("text", { x: 0, y: y + (many ? 9 : lane / 2 + 4) }, text, draw("title", {}, label)));
      if (many && i) svg.append(draw("line", { class: "edge", x1: 0, x2: width, y1: y - 3, y2: y - 3 }));
    }
    last = label;
    const group = draw("g", { "data-lane": one.instance }, draw("title", {}, one.instance));
    for (const part of one.parts) {
      const from = x(part.since), to = x(part.until === null ? end : part.until);
      group.append(draw("rect", { class: part.kind, x: from, y: y + pad, rx: many ? 0 : 3,
        width: Math.max(to - from, 1), height: lane - 2 * pad }));
    }
    svg.append(group);
  });

  if (history.until !== null) {
    svg.append(draw("line", { class: "end", x1: x(end), x2: x(end), y1: 0, y2: height - bottom }));
  }
  const index = new Map(history.lanes.map((one, i) => [one.instance, i]));
  history.marks.forEach((mark, i) => {
    const at = Math.min(Math.max(x(mark.at), left + 8), width - right);
    const row = index.get(mark.instance);
    const y = row === undefined ? top - 4 : tops[row] + lane / 2;
    const text = `${i + 1}`, wide = text.length * 7 + 20;
    const begin = Math.max(Math.min(at - 8, width - wide - 1), 0);
    svg.append(draw("g", { "data-failure": mark.instance }, draw("title", {}, mark.text),
      draw("rect", { class: "mark-back", x: begin, y: y - 8, width: wide, height: 16, rx: 8 }),
      draw("path", { class: "mark", d: `M${begin + 5} ${y - 3.5}l7 7m0-7l-7 7` }),
      draw("text", { class: "mark-text", x: begin + 16, y: y + 4 }, text)));
  });
  svg.append(draw("text", { class: "faint", x: left, y: height - 6 }, at(history.since)));
  svg.append(draw("text", { class: "faint", x: width - right, y: height - 6, "text-anchor": "end" },
    `${at(end)}${history.until === null ? ", now" : ""}`));
  return svg;
}

function component(instance) {
  return instance.slice(0, instance.lastIndexOf("/"));
}

// ---- samples of several instances together ----

function titled(one) {
  return one.of ? `${one.who}, ${one.of}` : one.who;
}

function quantities() { // the words of each quantity -> its series
  const kinds = new Map();
  for (const one of doc.samples ? doc.samples.series : []) {
    const words = one.program ? one.what : QUANTITIES[one.what] || one.what;
    const key = one.program && kinds.has(words) && !kinds.get(words)[0].program ? `${words} (metric)` : words;
    kinds.set(key, [...(kinds.get(key) || []), one]);
  }
  if (!kinds.has(quantity)) quantity = [...kinds.keys()][0];
  return kinds;
}

function samples() {
  if (!doc.samples) return null;
  return make("section", { id: "samples" },
    make("div", { class: "bar" }, make("h2", {}, "Over time"),
      chooser("quantity", [...quantities().keys()], quantity, (value) => { quantity = value; show(); }),
      make("span", { class: "faint", id: "pointed" })),
    make("div", { id: "part-lines" }));
}

function lines() {
  const whole = quantities().get(quantity);
  const whose = [...new Set(whole.map((one) => one.who))];
  const all = whole.map((one) => {
    const index = whose.indexOf(one.who);
    const dash = one.of === "lowest" || one.of === "highest" ? "2 4" : DASHES[Math.floor(index / LINES) % DASHES.length];
    const values = one.values.split(" ").map((value) => (value === "-" ? NaN : Number(value)));
    return { name: titled(one), who: one.who, of: one.of, kind: `line c${index % LINES}`, dash, values };
  });
  const legend = make("div", { class: "legend", id: "legend" }, all.map((line, i) => {
    const sign = draw("svg", { width: 24, height: 10, "aria-hidden": "true" },
      draw("path", { class: line.kind, d: "M1 5H23", "stroke-dasharray": line.dash || null }));
    const entry = make("button", { type: "button", id: `line-${i}`, "aria-pressed": String(!hidden.has(line.name)) },
      sign, `${line.name} `, make("b", {}, newest(line.values)));
    entry.addEventListener("click", () => {
      hidden.delete(line.name) || hidden.add(line.name);
      show();
    });
    return entry;
  }));
  const shown = all.filter((line) => !hidden.has(line.name));
  return [together(doc.samples.times, shown, !whole[0].program, legend, all), legend];
}

function newest(values) {
  const found = values.filter(Number.isFinite);
  return found.length ? number(found[found.length - 1]) : "\u2013";
}

function together(times, lines, fromZero, legend, all) { // the picture; the legend tells what is pointed at
  const width = inner(), height = 200, left = 52, right = 12, top = 8, bottom = 22;
  const known = lines.flatMap((line) => line.values.filter(Number.isFinite));
  const low = fromZero ? 0 : Math.min(...known), most = Math.max(...known);
  const high = most > low ? most : low + 1;
  const first = times[0], last = times[times.length - 1];
  const x = (time) => left + (width - left - right) * (last > first ? (time - first) / (last - first) : 1);
  const y = (value) => height - bottom - (height - top - bottom) * (value - low) / (high - low);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${quantity} of ${several(lines.length, "line")} from ${at(first)} to ${at(last)}` });
  if (known.length) {
    for (const value of [low, (low + high) / 2, high]) {
      svg.append(draw("line", { class: "edge", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        draw("text", { class: "faint", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, number(value)));
    }
  }
  const place = (i, value) => `${x(times[i]).toFixed(1)} ${y(value).toFixed(1)}`;
  for (const line of lines.filter((one) => one.of === "lowest")) { // a band up to the highest
    const upper = lines.find((one) => one.who === line.who && one.of === "highest");
    const both = upper ? times.map((_, i) => i).filter((i) => Number.isFinite(line.values[i] + upper.values[i])) : [];
    if (both.length > 1) {
      svg.append(draw("polygon", { class: line.kind.replace("line", "area"), points:
        [...both.map((i) => place(i, upper.values[i])), ...both.reverse().map((i) => place(i, line.values[i]))].join(" ") }));
    }
  }
  for (const line of lines) {
    let path = "", before = false;
    line.values.forEach((value, i) => {
      if (Number.isFinite(value)) path += `${before ? "L" : "M"}${place(i, value)}${before ? "" : "h0"}`;
      before = Number.isFinite(value);
    });
    svg.append(draw("path", { class: line.kind, "data-line": line.name, d: path || null, "stroke-dasharray": line.dash || null },
      draw("title", {}, line.name)));
  }
  svg.append(draw("text", { class: "faint", x: left, y: height - 6 }, at(first)),
    draw("text", { class: "faint", x: width - right, y: height - 6, "text-anchor": "end" }, at(last)));
  const cross = draw("line", { class: "end", y1: top, y2: height - bottom, visibility: "hidden" });
  svg.append(cross);
  const tell = (i) => {
    const values = legend.querySelectorAll("b");
    all.forEach((line, n) => {
      values[n].textContent = i === null ? newest(line.values) : Number.isFinite(line.values[i]) ? number(line.values[i]) : "\u2013";
    });
    cross.setAttribute("visibility", i === null ? "hidden" : "visible");
    document.getElementById("pointed").textContent = i === null ? "" : `at ${at(times[i])}`;
    if (i !== null) for (const end of ["x1", "x2"]) cross.setAttribute(end, x(times[i]));
  };
  svg.addEventListener("pointermove", (event) => {
    const place = (event.clientX - svg.getBoundingClientRect().left) * width / svg.getBoundingClientRect().width;
    tell(times.reduce((best, time, i) => (Math.abs(x(time) - place) < Math.abs(x(times[best]) - place) ? i : best), 0));
  });
  svg.addEventListener("pointerleave", () => tell(null));
  return svg;
}

function inner() { // the width of a section's content
  return Math.max(Math.floor(root.clientWidth - (root.clientWidth < 640 ? 50 : 74)), 220);
}

// ---- metrics --------------------------------------------------------------------------------

function metrics() {
  if (!doc.curves.length) return null;
  return make("section", {},
    make("h2", {}, "Metrics", make("span", { class: "note" }, "of each component\u2019s first instance")),
    make("div", { class: "plots" }, doc.curves.map(plot)));
}

function plot(curve) {
  const steps = curve.points.every((point) => point[1] !== null);
  const points = curve.points.map(([time, step, value]) => [steps ? step : time, Number(value)]);
  const finite = points.filter((point) => Number.isFinite(point[1]));
  const values = finite.map((point) => point[1]), places = points.map((point) => point[0]);
  const low = Math.min(...values), high = Math.max(...values);
  const first = Math.min(...places), last = Math.max(...places);
  const width = 300, height = 96, edge = 6;
  const x = (place) => edge + (width - 2 * edge) * (last > first ? (place - first) / (last - first) : 0.5);
  const y = (value) => height - edge - (height - 2 * edge) * (high > low ? (value - low) / (high - low) : 0.5);
  let path = "", before = null;
  for (const point of points) {
    if (!Number.isFinite(point[1])) { before = null; continue; }
    // A program that started again may go on from an earlier step.
    path += `${before === null || point[0] < before ? "M" : "L"}${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`;
    before = point[0];
  }
  const newest = curve.points[curve.points.length - 1];
  const epochs = /(^|\/)epoch_[^/]*$/.test(curve.metric);  // as Keras counts them, from 0 on
  const place = (value) => !steps ? at(value) : epochs ? `epoch ${value + 1}` : `step ${value}`;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${curve.metric} from ${place(first)} to ${place(last)}` },
    draw("line", { class: "edge", x1: 0, x2: width, y1: height - 1, y2: height - 1 }),
    path ? draw("path", { class: "curve", d: path }) : null,
    finite.length ? draw("circle", { class: "dot", r: 3.5,
      cx: x(finite[finite.length - 1][0]), cy: y(finite[finite.length - 1][1]) }) : null);
  const range = finite.length ? `${number(low)} to ${number(high)}` : "no finite value";
  return make("figure", { "data-metric": curve.metric, "data-instance": curve.instance },
    make("figcaption", {}, make("b", {}, curve.metric), make("b", {}, number(newest[2]))),
    svg,
    make("div", { class: "faint" }, `${curve.instance}, ${place(first)} to ${place(last)}, ${range}`));
}

// ---- exports and logs -----------------------------------------------------------------------

function exports_() {
  if (!doc.exports.length) return null;
  const rows = make("table", {},
    make("thead", {}, make("tr", {}, ["instance", "export", "value"].map((name) => make("th", {}, name)))),
    make("tbody", {}, doc.exports.map((one) => make("tr", {},
      make("td", { class: "name" }, one.instance), make("td", {}, `${one.group}.${one.name}`),
      make("td", { class: "free" }, link(one.value, one.value))))));
  if (doc.exports.length <= MANY) {
    return make("section", {}, make("h2", {}, "Exports"), rows);
  }
  return make("section", {}, make("h2", {}, "Exports"),
    make("details", { id: "exports" }, make("summary", {}, several(doc.exports.length, "export")), rows));
}

function logs() {
  if (!doc.log_names.length) return null;
  const choice = make("select", { id: "log-choice" }, doc.log_names.map((name) =>
    make("option", { value: name, selected: name === shownLog ? "" : null }, name)));
  choice.addEventListener("change", () => {
    shownLog = choice.value;
    if (searched) search();
    else showLog(true);
    if (source) listen();
    else look(true);
  });
  const box = make("input", { type: "search", id: "find-log", "aria-label": "search in the log", placeholder: "search, then Enter" });
  box.value = searched;
  // "search": Enter, and the cross that empties it.
  for (const kind of ["search", "change"]) box.addEventListener(kind, () => {
    const again = kind === "search" || box.value !== searched;
    searched = box.value;
    if (again) search();
  });
  const all = make("input", { type: "checkbox", id: "find-everywhere" });
  all.checked = everywhere;
  all.addEventListener("change", () => { everywhere = all.checked; search(); });
  const may = doc.pause === null || doc.can.includes("all logs");
  return make("section", {}, make("h2", {}, "Log", make("span", { class: "note", id: "log-note" })),
    make("div", { class: "bar" }, make("label", {}, "of", choice), box,
      may && doc.log_names.length > 1 ? make("label", {}, all, "in all logs") : null, make("span", { id: "log-link" })),
    make("pre", { class: "log", id: "log", tabindex: 0 }));
}

async function search() {
  const note = document.getElementById("log-note"), box = document.getElementById("log"), words = searched;
  if (!words) {
    note.textContent = "the last lines";
    box.textContent = "";
    return showLog(true);
  }
  note.textContent = "\u2026";
  let told = null;
  try {
    told = doc.pause === null ? searchHere(words) : await (await fetch(`search.json?log=${
      encodeURIComponent(everywhere ? "" : shownLog)}&find=${encodeURIComponent(words)}`)).json();
  } catch { /* it is told below */ }
  if (words !== searched) return;
  if (!told || !told.found) {
    note.textContent = "what served this page does not answer";
    return;
  }
  const shown = told.found.reduce((sum, one) => sum + one.lines.length, 0);
  const part = told.searched < told.size ? `the last ${amount(told.searched)} of ${amount(told.size)}` : amount(told.size);
  const found = `${several(told.matching, "line")} found in ${part}${shown < told.matching ? `, ${shown} shown` : ""}`;
  note.textContent = told.size ? found : "there is no log yet, or it cannot be read here";
  box.replaceChildren(...told.found.flatMap((one) => [
    ...(everywhere ? [make("b", {}, `${one.instance}\n`)] : []), ...one.lines.flatMap((line) => [...marked(line, words), "\n"])]));
  box.scrollTop = everywhere ? 0 : box.scrollHeight;
}

function searchHere(words) { // in a page that is kept
  const logs = doc.logs.filter((log) => everywhere || log.instance === shownLog);
  const found = logs.map((log) => ({ instance: log.instance,
    lines: log.text.split("\n").filter((line) => line.toLowerCase().includes(words.toLowerCase())) })).filter((one) => one.lines.length);
  const size = logs.reduce((sum, log) => sum + log.text.length, 0);
  return { found, matching: found.reduce((sum, one) => sum + one.lines.length, 0), searched: size, size };
}

function marked(line, words) {
  const parts = [], low = line.toLowerCase(), wanted = words.toLowerCase();
  let begin = 0;
  for (let place = low.indexOf(wanted); place >= 0; place = low.indexOf(wanted, begin)) {
    parts.push(line.slice(begin, place), make("mark", {}, line.slice(place, place + wanted.length)));
    begin = place + wanted.length;
  }
  return [...parts, line.slice(begin)];
}

function amount(bytes) {
  for (const [size, unit] of [[1 << 20, "MiB"], [1 << 10, "KiB"]]) if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  return `${bytes} bytes`;
}

function showLog(toEnd) {
  const box = document.getElementById("log");
  if (!box) return;
  const elsewhere = doc.links.find((one) => one.what === "log" && one.instance === shownLog);
  const address = elsewhere ? new URL(elsewhere.address, location.href).href : "";
  const place = document.getElementById("log-link");
  if (place.firstChild?.href !== address) {
    place.replaceChildren(...(address ? [link(address, "all of it, on its node")] : []));
  }
  if (searched) return void (document.getElementById("log-note").textContent || search()); // it was drawn anew
  document.getElementById("log-note").textContent = "the last lines";
  const found = doc.logs.find((log) => log.instance === shownLog);
  let text = found ? found.text : "\u2026";
  if (found && found.missing) text += `${text ? "\n" : ""}(${found.missing})`;
  if (found && !text) text = "(nothing yet)";
  if (box.textContent === text) return;
  const follows = toEnd || box.scrollHeight - box.scrollTop - box.clientHeight < 24;
  box.textContent = text;
  if (follows) box.scrollTop = box.scrollHeight;
}

// ---- stacks ----

function taken() {
  if (!doc.live || !doc.can.includes("last stacks")) return null;
  const button = (id, words, method, path = "stacks.json") => {
    const made = make("button", { type: "button", id }, words);
    made.addEventListener("click", () => take(method, path));
    return made;
  };
  const engine = doc.engine ? ` --engine ${doc.engine}` : "";
  const command = (name) => make("code", {}, `tfapp ${name} ${doc.name}${engine}`);
  return make("section", { id: "stacks" }, make("h2", {}, "Stacks", make("span", { class: "note" }, "where programs are")),
    make("div", { class: "bar" },
      doc.can.includes("stacks now") ? button("take-stacks", "Take them now", "POST") : null,
      button("last-stacks", "Show those taken last", "GET"),
      doc.can.includes("traces") ? button("take-profile", "Trace what they do", "POST", "profile.json") : null,
      make("span", { class: "faint" }, "or ", command("stacks"), "; what they do: ", command("profile"))),
    typeof stacks === "string" ? make("p", { id: "stacks-told" }, stacks) : stacks && places(stacks));
}

function places(found) {
  if (found.lines) return make("pre", { class: "log" }, found.lines.join("\n"));
  const [oldest, newest] = found.taken;
  const time = oldest ? make("p", { class: "faint" }, `Taken ${when(oldest)}`, newest > oldest + 10 ? ` to ${when(newest)}` : "") : null;
  const groups = found.groups.map((group, i) => make("details", { id: `stacks-${i}` },
    make("summary", {}, group.words),
    group.instances.length > 1 ? make("p", { class: "faint" }, group.instances.join(", ")) : null,
    make("pre", { class: "log" }, group.lines.join("\n"))));
  const missing = found.missing.length ? make("p", {}, `No answer of ${found.missing.join(", ")}.`) : null;
  return groups.length || missing ? [time, ...groups, missing] : make("p", { id: "stacks-told" },
    "None were taken of the programs that run: they are when steps stop for long, and by the command.");
}

async function take(method, path) {
  stacks = "\u2026";
  show();
  try {
    const answer = await fetch(path, { method });
    const told = await answer.json();
    stacks = answer.ok ? told : `${told.error}.`;
  } catch {
    stacks = "What served this page does not answer.";
  }
  show();
}

// ---- the list of applications ---------------------------------------------------------------

function find() {
  if (doc.rows.length <= MANY) return null;
  const box = make("input", { type: "search", "aria-label": "search", placeholder: "search name, state, user, tag" });
  box.value = wanted;
  box.addEventListener("input", () => { wanted = box.value; show(); });
  return make("p", {}, box);
}

function found() {
  const words = wanted.toLowerCase().split(" ");
  const text = (row) => [row.name, row.state, row.engine, row.words, ...row.tags].join(" ").toLowerCase();
  return doc.rows.filter((row) => words.every((word) => text(row).includes(word)));
}

function list() {
  const rows = found(), more = rows.length - MOST_ROWS;
  return make("section", {}, doc.rows.length ? make("ul", { class: "apps" }, rows.slice(0, MOST_ROWS).map((row) => make("li", {},
    make("div", { class: "bar" }, make("a", { class: "name", href: row.href }, row.name), state(row.state),
      make("span", { class: "faint" }, [row.engine, row.run ? `run ${row.run}` : "", when(row.started),
        row.started ? long((row.live ? now() : row.updated) - row.started) : "", row.tags.join(", ")]
        .filter((text) => text).join(" \u00b7 "))),
    make("div", {}, row.words)))) : make("p", {}, "There is nothing yet."),
  more > 0 ? make("p", { class: "faint" }, `and ${more.toLocaleString("en")} older ones`) : null);
}

function notes() {
  if (!doc.notes.length) return null;
  return make("section", { class: "stale" }, make("ul", {}, doc.notes.map((note) => make("li", {}, note))));
}

// ---- drawing, and asking for newer documents ------------------------------------------------

// For each part its name, what builds it, from what, and whether it is inside of another, which has
// fields that stay as they are.
const PARTS = {
  application: [
    ["ways", ways, () => doc.ways],
    ["head", head, () => [doc.words, doc.state, doc.run, doc.live && [Math.floor(elapsed()), doc.instances.map(part)]]],
    ["cause", cause, () => doc.cause],
    ["stalled", stalled, () => [doc.stalled, doc.instances.map((one) => one.since)]],
    ["links", links, () => doc.links],
    // Drawn anew where it would look different: after an hour each 12 seconds.
    ["history", past, () => [doc.history, doc.moments.length, root.clientWidth, doc.live && Math.floor(300 * Math.log(elapsed() + 1))]],
    ["instances", instances, () => doc.instances.length],
    ["rows", rows, () => [doc.instances, doc.slow, wanted, order], true],
    ["samples", samples, () => [...quantities().keys()]],
    ["lines", lines, () => [doc.samples, quantity, [...hidden], root.clientWidth], true],
    ["metrics", metrics, () => doc.curves], ["feed", feed, () => doc.feed],
    ["stacks", taken, () => [doc.live, doc.can, stacks]],
    ["logs", logs, () => doc.log_names], ["ran", ran, () => doc.ran], ["exports", exports_, () => doc.exports],
  ],
  error: [["head", () => make("header", {}, make("h1", {}, doc.name),
    make("p", { class: "words", id: "words" }, doc.words),
    doc.up ? make("p", {}, make("a", { href: doc.up }, "Back to the first page")) : null),
    () => [doc.name, doc.words]]],
  list: [
    ["head", () => make("header", {}, make("h1", {}, doc.name)), () => doc.name],
    ["notes", notes, () => doc.notes],
    ["find", find, () => doc.rows.length > MANY],
    ["list", list, () => [doc.rows, wanted, doc.rows.some((row) => row.live) && Math.floor(now())]],
  ],
};

function show() {
  for (const [id, build, uses, inside] of PARTS[doc.kind]) {
    const made = JSON.stringify(uses()), old = document.getElementById(`part-${id}`);
    if (drawn.get(id) === made || (inside && !old)) continue;
    drawn.set(id, made);
    const open = old ? [...old.querySelectorAll("details[open]")].map((one) => one.id) : [];
    const focus = old && old.contains(document.activeElement) ? document.activeElement : null;
    const fresh = make("div", { id: `part-${id}` }, build());
    for (const one of fresh.querySelectorAll("details")) one.open = open.includes(one.id);
    for (const one of fresh.querySelectorAll("[id^=part-]")) drawn.delete(one.id.slice("part-".length));
    if (old) old.replaceWith(fresh);
    else root.append(fresh);
    if (focus && focus.id) refocus(focus);
  }
  if (doc.kind !== "application") return;
  document.title = `${(SHAPES[doc.state] || ["?"])[0]} ${doc.name} \u00b7 tfapp`; // for the tab
  showLog(false);
}

function refocus(before) { // a field goes on where it was
  const field = document.getElementById(before.id);
  if (!field) return;
  field.focus({ preventScroll: true });
  if (before.type === "search") field.setSelectionRange(before.selectionStart, before.selectionEnd);
}

function silent(text) {
  if (doc.kind === "error") return; // the page is about the error already
  const old = document.getElementById("silent");
  if (old && !text) old.remove();
  if (old || !text) return;
  root.prepend(make("section", { class: "stale", id: "silent", role: "status" }, text));
}

let seen = "", busy = false;

async function look(now) { // whether the server has answered
  if (busy && !now) return false;
  let there = false;
  busy = true;
  try {
    const asked = shownLog;
    const answer = await fetch(`data.json?log=${encodeURIComponent(asked)}&seen=${encodeURIComponent(seen)}`);
    if (!answer.ok) throw new Error(String(answer.status));
    const told = await answer.json(); // null: nothing is new
    if (told && asked === shownLog) {
      if (told.document.kind !== doc.kind) return location.reload();
      doc = told.document;
      seen = told.seen;
      clock = told.clock - Date.now() / 1000;
    }
    silent("");
    there = true;
  } catch {
    silent("\u25a0 There is no news: what served this page does not answer. It shows what was known last.");
  }
  busy = false;
  show();
  return there;
}

// Where the server tells of news, it is listened to; else, and when that breaks off, it is asked.
let source = null, heard = true, again = 0; // the time from which on it may be listened to again

function listen() {
  if (source) source.close();
  const asked = shownLog, opened = new EventSource(`events?log=${encodeURIComponent(asked)}`);
  source = opened;
  heard = false;
  opened.onmessage = (event) => {
    if (opened !== source) return;
    const told = JSON.parse(event.data);
    if (told.document.kind && told.document.kind !== doc.kind) return location.reload();
    doc = { ...doc, ...told.document };
    clock = told.clock - Date.now() / 1000;
    heard = true;
    silent("");
    show();
  };
  opened.onerror = () => {
    opened.close();
    if (opened !== source) return;
    source = null;
    again = Date.now() + (heard ? 0 : 30000);
  };
}

function deaf() {
  if (source) source.close();
  source = null;
}

async function watch() {
  for (;;) {
    try {
      const there = !document.hidden && !source && await look(false);
      if (there && doc.can && doc.can.includes("events") && Date.now() >= again) listen();
    } catch (error) { // of what is drawn: the next news may be drawn well
      console.error(error);
    }
    await new Promise((next) => setTimeout(next, (doc.pause || 1) * 1000));
  }
}

root.replaceChildren();
show();
showLog(true);
if (doc.pause !== null) {
  watch();
  document.addEventListener("visibilitychange", () => (document.hidden ? deaf() : look(false)));
}
addEventListener("resize", show);
