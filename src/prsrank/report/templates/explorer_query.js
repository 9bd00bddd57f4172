// One query: both orders joined by lines, what is known of it, and its docs.
const TOP = 10; // ranks that count

const queryDrawing = (view, choose) => {
  const {
    data, meta, state, heldOut, queryColumns, docColumns, gain, half, rank, docsOf, docName, clicksOf, byRank, loggedRank,
    title,
  } = view;

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

  return { ordersOf, factsOf, docTable };
};
