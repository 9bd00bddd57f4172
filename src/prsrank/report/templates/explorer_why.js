// Why one doc is above another: the difference of what features add to their scores.
const LARGEST = 6; // features named, by how much they differ between two docs

const whyDrawing = (view) => {
  const { state, docs, rank, docTitle, featureTitle, title } = view;

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

  return drawWhy;
};
