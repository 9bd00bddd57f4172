// The list of queries, the one that is open, and the address that keeps both.
const ROWS = 50; // queries drawn at once: a keystroke is answered before the next

const explore = (data) => {
  const view = viewOf(data);
  const { meta, state, queries, docs, heldOut, docColumns, gain, half, docsOf, queryName, queryTitle } = view;
  let found = [];
  let drawn = 0;

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
  const wide = matchMedia("(min-width: 62rem)");
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
    if (!at) return;
    open(Number(at.dataset.query));
    // where the query lies below the list, one would not see that it has opened
    if (!wide.matches) $("title").scrollIntoView();
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
  const drawWhy = whyDrawing(view);
  const download = csvDownload(view);
  const { ordersOf, factsOf, docTable } = queryDrawing(view, choose);

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
    ? `A sample, ${count(queries)} of ${count(meta.all)} queries: ${picked.join(", ")}; gains and losses by ${meta.rankers[0][1]}.`
    : "All of its queries are here.";
  readAddress();
};

unpack("explored").then(explore).then(
  () => { root.dataset.drawn = "yes"; },
  (error) => { root.dataset.drawn = "failed"; console.error(error); },
);
