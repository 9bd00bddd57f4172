"use strict";
(() => {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const ROWS = 100; // queries drawn at once: a keystroke is answered before the next
  const LARGEST = 6; // features named, by how much they differ between two docs
  const TOP = 10; // ranks that count
  const Z = 1.96;
  const REASONS = {
    traffic: "of most sessions", gain: "of largest gain", loss: "of largest loss", random: "drawn at random",
  };

  // Light and dark, as in the report.
  const theme = $("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const tellTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tellTheme();
  });
  prefersDark.addEventListener("change", tellTheme);
  tellTheme();
  theme.hidden = false;

  // Elements: every text of the data goes through textContent.
  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const shape = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const count = (value) => value.toLocaleString("en");
  const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
  const someQueries = (value) => (value === 1 ? "1 query" : `${count(value)} queries`);
  const signed = (value, digits = 3) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
  const share = (value) => (value === 0 ? "0" : value < 0.001 ? "<0.001" : value.toFixed(3));
  const tone = (value) => (value > 0 ? "up" : value < 0 ? "down" : "");

  // What explorer_blocks.packed packed.
  const unpack = async (id) => {
    const text = atob($(id).textContent);
    const zipped = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) zipped[i] = text.charCodeAt(i);
    const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream("gzip"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const size = new DataView(bytes.buffer).getUint32(0, true);
    const { meta, arrays } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + size)));
    const found = { meta };
    let at = 4 + size;
    for (const [name, kind, length] of arrays) {
      const whole = new Uint8Array(4 * length);
      for (let plane = 0; plane < 4; plane++) {
        for (let i = plane; i < whole.length; i += 4) whole[i] = bytes[at++];
      }
      found[name] = kind === "f" ? new Float32Array(whole.buffer) : new Uint32Array(whole.buffer);
    }
    return found;
  };

  const explore = (data) => {
    const { meta } = data;
    const queries = meta.queries.length;
    const docs = meta.docs.length;
    const heldOut = new Set(meta.heldOut);
    const queryColumns = Object.entries(meta.queryColumns);
    const docColumns = Object.entries(meta.docColumns);
    const state = { query: -1, ranker: 0, sort: "gain", show: "all", search: "", held: false, chosen: [] };
    let found = [];
    let drawn = 0;

    const gain = (query, ranker = state.ranker) => data.gain[ranker * queries + query];
    const half = (query) => Z * data.deviation[state.ranker * queries + query];
    const rank = (doc) => data.ranks[state.ranker * docs + doc];
    const docsOf = (query) => {
      const first = data.offsets[query];
      return Array.from({ length: data.offsets[query + 1] - first }, (_, i) => first + i);
    };
    const queryName = (query) => {
      const texts = queryColumns.map(([, values]) => values[query]).filter(Boolean);
      return [...texts, meta.queries[query]].join(" · ");
    };
    // numbers alone are no names: said in full where nothing beside them says what they are
    const queryTitle = (query) => (/^\d+$/.test(queryName(query)) ? `Query ${queryName(query)}` : queryName(query));
    const docTitle = (doc) => (/^\d+$/.test(docName(doc)) ? `doc ${docName(doc)}` : docName(doc));
    const featureTitle = (name) => (/^\d+$/.test(name) ? `feature ${name}` : name);
    const docName = (doc) => docColumns.map(([, values]) => values[doc]).find(Boolean) || meta.docs[doc];
    const clicksOf = (query) => docsOf(query).reduce((sum, doc) => sum + data.clicks[doc], 0);

    // One text a query to search in: its name, and all that is known of its docs.
    const haystacks = meta.queries.map((_, query) => {
      const texts = [queryName(query)];
      for (const doc of docsOf(query)) {
        texts.push(meta.docs[doc]);
        for (const [, values] of docColumns) texts.push(values[doc]);
      }
      return texts.join("\n").toLowerCase();
    });

    const KEYS = {
      gain: (query) => -gain(query),
      loss: (query) => gain(query),
      total: (query) => -gain(query) * data.sessions[query],
      traffic: (query) => -data.sessions[query],
      uncertainty: (query) => -half(query),
    };
    const FITS = {
      all: () => true,
      gains: (query) => gain(query) > 0,
      losses: (query) => gain(query) < 0,
      "clear-gains": (query) => gain(query) > half(query),
      "clear-losses": (query) => gain(query) < -half(query),
    };

    // The list of queries.
    const list = $("list");
    const option = (query) => {
      const made = element("li");
      made.id = `query-${query}`;
      made.setAttribute("role", "option");
      made.setAttribute("aria-selected", String(query === state.query));
      made.dataset.query = query;
      made.append(
        element("span", queryName(query), "name"),
        element("span", signed(gain(query)), `value ${tone(gain(query))}`),
        element("small", `± ${half(query).toFixed(3)} · ${plural(data.sessions[query], "session")}`
          + (heldOut.has(query) ? " · held out" : "")),
      );
      return made;
    };
    const drawMore = (least = ROWS) => {
      const until = Math.min(found.length, drawn + least);
      list.append(...found.slice(drawn, until).map(option));
      drawn = until;
      $("more").hidden = drawn === found.length;
      $("more").textContent = `Show ${Math.min(ROWS, found.length - drawn)} more`;
    };
    const search = () => {
      const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = FITS[state.show];
      found = [];
      for (let query = 0; query < queries; query++) {
        if (fits(query) && (!state.held || heldOut.has(query))
          && words.every((word) => haystacks[query].includes(word))) found.push(query);
      }
      if (state.sort === "name") {
        found.sort((a, b) => queryName(a).localeCompare(queryName(b), "en", { numeric: true }));
      } else {
        const key = KEYS[state.sort];
        found.sort((a, b) => key(a) - key(b) || data.sessions[b] - data.sessions[a] || a - b);
      }
      list.replaceChildren();
      drawn = 0;
      drawMore();
      list.scrollTop = 0;
      tellActive();
      const sum = found.reduce((total, query) => total + gain(query) * data.sessions[query], 0);
      const sessions = found.reduce((total, query) => total + data.sessions[query], 0);
      $("found").textContent = someQueries(found.length)
        + (found.length ? `, mean gain over their sessions ${signed(sum / Math.max(sessions, 1))}` : "");
      $("download").disabled = !found.length;
    };
    const tellActive = () => {
      const active = $(`query-${state.query}`);
      for (const one of list.querySelectorAll('[aria-selected="true"]')) {
        if (one !== active) one.setAttribute("aria-selected", "false");
      }
      if (active) {
        active.setAttribute("aria-selected", "true");
        list.setAttribute("aria-activedescendant", active.id);
      } else {
        list.removeAttribute("aria-activedescendant");
      }
    };
    const open = (query) => {
      state.query = query;
      state.chosen = [];
      tellActive();
      drawDetail();
      writeAddress();
    };
    const move = (to) => {
      if (!found.length) return;
      const index = Math.max(0, Math.min(found.length - 1, to));
      while (drawn <= index) drawMore();
      open(found[index]);
      $(`query-${state.query}`).scrollIntoView({ block: "nearest" });
    };
    list.addEventListener("click", (event) => {
      const at = event.target.closest("li");
      if (at) open(Number(at.dataset.query));
    });
    list.addEventListener("keydown", (event) => {
      const at = found.indexOf(state.query);
      const steps = {
        ArrowDown: at + 1, ArrowUp: Math.max(at, 1) - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: found.length - 1,
      };
      if (event.key in steps) move(steps[event.key]);
      else if (event.key === "Enter" && state.query >= 0) $("title").focus();
      else return;
      event.preventDefault();
    });
    $("search").addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "ArrowDown") {
        event.preventDefault();
        list.focus();
        if (!found.includes(state.query)) move(0);
      }
    });

    // One query: both orders, joined by lines.
    const docButton = (doc, ranked) => {
      const made = element("button");
      made.type = "button";
      made.tabIndex = -1;
      made.dataset.doc = doc;
      made.setAttribute("aria-pressed", String(state.chosen.includes(doc)));
      made.title = docName(doc);
      const moved = data.logged[doc] - rank(doc);
      made.append(
        element("span", String(ranked ? rank(doc) : data.logged[doc]), "rank"),
        element("span", docName(doc), "name"),
      );
      if (ranked) {
        const mark = element("span", moved ? (moved > 0 ? "▲" : "▼") + Math.abs(moved) : "", `aside ${tone(moved)}`);
        mark.setAttribute("aria-hidden", "true");
        made.append(mark, element("span", moved ? `${moved > 0 ? "up" : "down"} by ${Math.abs(moved)}` : "not moved", "unseen"));
      } else {
        const mark = element("span", `ø ${data.position[doc].toFixed(1)}`, "aside");
        mark.setAttribute("aria-hidden", "true");
        made.append(mark, element("span", `mean position ${data.position[doc].toFixed(1)}`, "unseen"));
      }
      const item = element("li");
      item.append(made);
      return item;
    };
    const orderOf = (name, title, members, ranked) => {
      const made = element("ol", undefined, name);
      made.setAttribute("aria-label", title);
      made.append(...members.map((doc) => docButton(doc, ranked)));
      const first = made.querySelector("button");
      if (first) first.tabIndex = 0;
      return made;
    };
    const linesOf = (members) => {
      const size = members.length;
      const svg = shape("svg", { viewBox: `0 0 100 ${size}`, preserveAspectRatio: "none", "aria-hidden": "true" });
      // what stays is drawn first, so that movers lie above; those within or over the top stand out
      const moved = (doc) => Math.abs(data.logged[doc] - rank(doc));
      for (const doc of [...members].sort((a, b) => moved(a) - moved(b))) {
        const from = data.logged[doc] - 0.5;
        const to = rank(doc) - 0.5;
        const line = shape("path", { d: `M0,${from}C50,${from} 50,${to} 100,${to}`, class: Math.min(from, to) < TOP ? tone(from - to) : "" });
        line.dataset.doc = doc;
        svg.append(line);
      }
      return svg;
    };
    const byRank = (query, of) => docsOf(query).sort((a, b) => of(a) - of(b));
    const loggedRank = (doc) => data.logged[doc];
    const title = () => meta.rankers[state.ranker][1];

    const ordersOf = (query) => {
      const made = element("div", undefined, "orders");
      made.append(
        element("h3", "Logged order, with mean positions"),
        element("h3", title()),
        orderOf("logged", "Docs in the logged order", byRank(query, loggedRank), false),
        linesOf(docsOf(query)),
        orderOf("ranked", `Docs in the order of ${title()}`, byRank(query, rank), true),
      );
      made.addEventListener("click", (event) => {
        const button = event.target.closest("button");
        if (button) choose(Number(button.dataset.doc));
      });
      made.addEventListener("keydown", (event) => moveDoc(made, event));
      return made;
    };
    // One tab stop an order; arrows go up and down in it, and to the same doc in the other.
    const moveDoc = (orders, event) => {
      const at = event.target.closest("button");
      if (!at) return;
      const buttons = [...at.closest("ol").querySelectorAll("button")];
      const index = buttons.indexOf(at);
      const beside = [...orders.querySelectorAll(`button[data-doc="${at.dataset.doc}"]`)];
      const to = {
        ArrowDown: buttons[index + 1], ArrowUp: buttons[index - 1], Home: buttons[0], End: buttons.at(-1),
        ArrowRight: beside[1], ArrowLeft: beside[0],
      }[event.key];
      if (!to) return;
      event.preventDefault();
      for (const one of to.closest("ol").querySelectorAll("button")) one.tabIndex = one === to ? 0 : -1;
      to.focus();
    };

    const factsOf = (query) => {
      const made = element("ul", undefined, "facts");
      const fact = (name, value, className) => {
        const item = element("li", `${name} `);
        item.append(element("b", value, className));
        made.append(item);
      };
      fact("estimated gain", `${signed(gain(query))} ± ${half(query).toFixed(3)}`, tone(gain(query)));
      fact("sessions", count(data.sessions[query]));
      fact("clicks", count(clicksOf(query)));
      fact("docs", count(docsOf(query).length));
      for (const [name, values] of queryColumns) fact(name, values[query] || "–");
      if (meta.anyHeldOut) fact("part", heldOut.has(query) ? "held out" : "trained on");
      if (data.picked.length) fact("in the sample as one", REASONS[meta.reasons[data.picked[query]]]);
      return made;
    };

    const thetaCell = (doc, most) => {
      const cell = element("td", undefined, "theta");
      const at = (value) => (100 * value) / most;
      const svg = shape("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
      svg.append(
        shape("line", { x1: 0, x2: 100, y1: 5, y2: 5 }),
        shape("line", { x1: at(data.low[doc]), x2: at(data.high[doc]), y1: 5, y2: 5, class: "interval" }),
        shape("line", { x1: at(data.theta[doc]), x2: at(data.theta[doc]), y1: 0, y2: 10, class: "at" }),
      );
      cell.append(
        element("span", `${share(data.theta[doc])} (${share(data.low[doc])} to ${share(data.high[doc])})`, "number"),
        svg,
      );
      return cell;
    };
    const row = (name, texts) => {
      const made = element("tr");
      for (const [text, className] of texts) {
        const cell = element(name, text, className);
        if (name === "th") cell.scope = "col";
        made.append(cell);
      }
      return made;
    };
    const tableIn = (label, className) => {
      const region = element("div", undefined, "scroll");
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", label);
      region.tabIndex = 0;
      const table = element("table", undefined, className);
      region.append(table);
      return [region, table];
    };
    const docTable = (query) => {
      const [region, table] = tableIn("Docs of the query", "docs");
      const number = (text) => [text, "number"];
      const head = row("th", [
        ["doc"], number("rank"), number("logged rank"), ...docColumns.map(([name]) => [name]),
        ["P(click once seen)"], number("impressions"), number("clicks"), number("mean position"), number("propensity"),
      ]);
      const body = element("tbody");
      const members = byRank(query, rank);
      const most = Math.max(...members.map((doc) => data.high[doc]), 1e-9);
      for (const doc of members) {
        const name = element("th", meta.docs[doc]);
        name.scope = "row";
        const line = row("td", [
          number(String(rank(doc))), number(String(data.logged[doc])),
          ...docColumns.map(([, values]) => [values[doc], "text"]),
        ]);
        const counts = row("td", [
          number(count(data.impressions[doc])), number(count(data.clicks[doc])),
          number(data.position[doc].toFixed(1)), number(share(data.propensity[doc])),
        ]);
        line.prepend(name);
        line.append(thetaCell(doc, most), ...counts.children);
        body.append(line);
      }
      const top = element("thead");
      top.append(head);
      table.append(element("caption", "Propensity is the mean over a doc's impressions."), top, body);
      return region;
    };

    const drawDetail = () => {
      const detail = $("detail");
      if (state.query < 0) {
        const empty = element("section");
        empty.append(element("p", "Choose a query."));
        detail.replaceChildren(empty);
        return;
      }
      const made = element("section");
      const heading = element("h2", queryTitle(state.query));
      heading.id = "title";
      heading.tabIndex = -1;
      const why = element("div");
      why.id = "why";
      why.setAttribute("aria-live", "polite");
      const button = element("button", "Download this query as CSV");
      button.type = "button";
      button.id = "download-query";
      button.addEventListener("click", () => download([state.query]));
      const docsTitle = element("h3", "Docs");
      docsTitle.style.marginTop = "1.4rem";
      made.append(heading, factsOf(state.query), ordersOf(state.query), why, docsTitle, docTable(state.query), button);
      detail.replaceChildren(made);
      drawWhy();
    };

    // Why one doc is above another.
    const choose = (doc) => {
      const at = state.chosen.indexOf(doc);
      if (at >= 0) state.chosen.splice(at, 1);
      else state.chosen = [...state.chosen, doc].slice(-2);
      for (const one of document.querySelectorAll(".orders button")) {
        one.setAttribute("aria-pressed", String(state.chosen.includes(Number(one.dataset.doc))));
      }
      drawWhy();
      writeAddress();
    };
    const blocks = new Map();
    const contributions = (ranker) => {
      const id = `contributions-${ranker}`;
      if (!blocks.has(id)) blocks.set(id, $(id) ? unpack(id) : Promise.resolve(null));
      return blocks.get(id);
    };
    const reasonsOf = (block, above, below) => {
      const { features, others } = block.meta;
      const difference = (i) => block.values[i * docs + above] - block.values[i * docs + below];
      const all = features.map((name, i) => [featureTitle(name), difference(i)]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
      const total = block.scores[above] - block.scores[below];
      const shown = all.slice(0, LARGEST);
      const left = all.length - shown.length + others;
      // the scores are exact and add up: what is not shown is the rest of their difference
      const rest = total - shown.reduce((sum, [, value]) => sum + value, 0);
      return { total, shown: left ? [...shown, [`all other features (${left})`, rest]] : shown };
    };
    const barCell = (value, most) => {
      const cell = element("td", undefined, "bar-cell");
      const svg = shape("svg", { viewBox: "-50 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
      const width = (48 * Math.abs(value)) / most;
      svg.append(
        shape("rect", { x: value < 0 ? -width : 0, y: 1, width, height: 8, class: tone(value) }),
        shape("line", { x1: 0, x2: 0, y1: 0, y2: 10 }),
      );
      cell.append(svg);
      return cell;
    };
    const whyTable = ({ total, shown }) => {
      const [region, table] = tableIn("Contributions of features", "");
      const head = element("thead");
      head.append(row("th", [["feature"], ["difference", "number"], [""]]));
      const body = element("tbody");
      const most = Math.max(...shown.map(([, value]) => Math.abs(value)), 1e-12);
      for (const [name, value] of [...shown, ["score, in all", total]]) {
        const line = row("td", [[signed(value, 4), `number ${tone(value)}`]]);
        const title = element("th", name);
        title.scope = "row";
        line.prepend(title);
        line.append(barCell(value, Math.max(most, Math.abs(total))));
        body.append(line);
      }
      table.append(head, body);
      return region;
    };
    const drawWhy = async () => {
      const why = $("why");
      for (const line of document.querySelectorAll(".orders path")) {
        line.classList.toggle("chosen", state.chosen.includes(Number(line.dataset.doc)));
      }
      if (state.chosen.length < 2) {
        why.replaceChildren(element("p", state.chosen.length
          ? `${docTitle(state.chosen[0])}: choose another doc to see why one is above the other.`
          : "Choose two docs to see why one is above the other."));
        return;
      }
      const { ranker } = state;
      const [above, below] = [...state.chosen].sort((a, b) => rank(a) - rank(b));
      const block = await contributions(ranker);
      if (ranker !== state.ranker || !state.chosen.includes(above) || !state.chosen.includes(below)) return;
      const parts = [element("h3", `Why is ${docTitle(above)} above ${docTitle(below)}?`)];
      if (block === null) {
        parts.push(element("p", `The page has no contributions of features to ${title()}: a net has none, and those of`
          + " the last rankers are left out of a large page. Fewer queries (--queries) leave space for more."));
      } else {
        const reasons = reasonsOf(block, above, below);
        parts.push(
          element("p", reasons.total > 0
            ? `By ${title()} its score is higher by ${reasons.total.toPrecision(3)}. What each feature adds to it:`
            : "They have the same score, and stay in the logged order."),
          whyTable(reasons),
        );
      }
      why.replaceChildren(...parts);
    };

    // CSV, one row a doc. A text that a spreadsheet would take for a formula gets a quote before it.
    const csvText = (text) => {
      const safe = /^[=+@\t\r]|^-(?![\d.]+$)/.test(text) ? `'${text}` : text;
      return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const csvOf = (chosen) => {
      const columns = [...queryColumns, ...docColumns].map(([name]) => name);
      const lines = [[
        "query_id", "doc_id", ...columns, "rank", "logged_rank", "impressions", "clicks", "mean_position", "propensity",
        "theta", "low", "high", "ranker", "query_sessions", "query_gain", "query_gain_deviation",
      ].map(csvText).join(",")];
      const short = (value) => String(Number(value.toPrecision(5)));
      for (const query of chosen) {
        const texts = queryColumns.map(([, values]) => values[query]);
        for (const doc of byRank(query, rank)) {
          lines.push([
            meta.queries[query], meta.docs[doc], ...texts, ...docColumns.map(([, values]) => values[doc]),
            rank(doc), data.logged[doc], data.impressions[doc], data.clicks[doc],
            ...["position", "propensity", "theta", "low", "high"].map((name) => short(data[name][doc])),
            meta.rankers[state.ranker][0], data.sessions[query], short(gain(query)), short(half(query) / Z),
          ].map((value) => csvText(String(value))).join(","));
        }
      }
      return `${lines.join("\r\n")}\r\n`;
    };
    const download = (chosen) => {
      const link = element("a");
      link.href = URL.createObjectURL(new Blob([csvOf(chosen)], { type: "text/csv" }));
      link.download = "queries.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    };
    $("download").addEventListener("click", () => download(found));
    $("more").addEventListener("click", () => drawMore());

    // The view is in the address, so that it can be sent.
    const address = () => {
      const parts = new URLSearchParams();
      const put = (name, value, usual) => { if (value !== usual) parts.set(name, value); };
      put("search", state.search, "");
      put("ranker", meta.rankers[state.ranker][0], meta.rankers[0][0]);
      put("sort", state.sort, "gain");
      put("show", state.show, "all");
      put("held", state.held ? "1" : "", "");
      if (state.query >= 0) parts.set("query", meta.queries[state.query]);
      for (const doc of state.chosen) parts.append("doc", meta.docs[doc]);
      return `#${parts}`;
    };
    const writeAddress = () => history.replaceState(null, "", address());
    const readAddress = () => {
      const parts = new URLSearchParams(location.hash.slice(1));
      const ranker = meta.rankers.findIndex(([name]) => name === parts.get("ranker"));
      state.search = parts.get("search") || "";
      state.ranker = Math.max(0, ranker);
      state.sort = Object.hasOwn(KEYS, parts.get("sort")) || parts.get("sort") === "name" ? parts.get("sort") : "gain";
      state.show = Object.hasOwn(FITS, parts.get("show")) ? parts.get("show") : "all";
      state.held = parts.get("held") === "1" && meta.anyHeldOut;
      state.query = meta.queries.indexOf(parts.get("query"));
      const members = state.query < 0 ? [] : docsOf(state.query);
      state.chosen = parts.getAll("doc").slice(0, 2)
        .map((name) => members.find((doc) => meta.docs[doc] === name)).filter((doc) => doc !== undefined);
      $("search").value = state.search;
      $("ranker").selectedIndex = state.ranker;
      $("sort").value = state.sort;
      $("show").value = state.show;
      $("held").checked = state.held;
      search();
      if (state.query < 0 && found.length) state.query = found[0];
      const index = found.indexOf(state.query);
      while (index >= drawn) drawMore();
      tellActive();
      $(`query-${state.query}`)?.scrollIntoView({ block: "nearest" });
      drawDetail();
    };

    const changed = () => {
      search();
      writeAddress();
    };
    $("search").addEventListener("input", (event) => { state.search = event.target.value; changed(); });
    $("sort").addEventListener("change", (event) => { state.sort = event.target.value; changed(); });
    $("show").addEventListener("change", (event) => { state.show = event.target.value; changed(); });
    $("held").addEventListener("change", (event) => { state.held = event.target.checked; changed(); });
    $("ranker").addEventListener("change", (event) => {
      state.ranker = event.target.selectedIndex;
      changed();
      drawDetail();
    });
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("skip").addEventListener("click", (event) => {
      event.preventDefault();
      ($("title") || $("detail")).focus();
    });
    addEventListener("hashchange", () => { if (location.hash !== address()) readAddress(); });

    for (const [, text] of meta.rankers) $("ranker").append(element("option", text));
    $("held-label").hidden = !meta.anyHeldOut;
    $("subtitle").textContent = `${meta.source}: ${someQueries(queries)}`
      + (meta.picked ? ` of ${count(meta.all)}` : "") + `, ${plural(docs, "doc")}, ${plural(meta.rankers.length, "ranker")}`;
    $("curve").textContent = `Propensities: ${meta.curve}.`;
    $("note").textContent = meta.note;
    $("note").hidden = !meta.note;
    const picked = meta.picked && meta.reasons.map((reason, i) => `${count(meta.picked[i])} ${REASONS[reason]}`);
    $("sample").textContent = picked
      ? `A sample, ${count(queries)} of ${count(meta.all)} queries: ${picked.join(", ")} (gains of ${meta.rankers[0][1]}).`
      : "All queries of the log are here.";
    readAddress();
  };

  unpack("explored").then(explore).then(
    () => { root.dataset.drawn = "yes"; },
    (error) => { root.dataset.drawn = "failed"; console.error(error); },
  );
})();
