"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;
  const tip = document.getElementById("tip");

  // Light and dark: the colours are CSS variables, so charts follow without being drawn again.
  const button = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const tellTheme = () => button.setAttribute("aria-pressed", String(isDark()));
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tellTheme();
  });
  prefersDark.addEventListener("change", tellTheme);
  tellTheme();
  button.hidden = false;

  // One tooltip for all charts: the values of every shown method at the point.
  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const showTip = (event, point, rows, styles) => {
    const table = element("table");
    for (const [name, value] of rows) {
      const row = table.insertRow();
      const mark = row.insertCell();
      const dot = element("span", "", "mark");
      dot.style.background = `var(--m${styles[name]})`;
      mark.append(dot);
      row.append(element("th", name), element("td", value));
    }
    tip.replaceChildren(element("p", point), table);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 16;
    const left = right + box.width > innerWidth - 8 ? event.clientX - box.width - 16 : right;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(event.clientY + 12, innerHeight - box.height - 8))}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  addEventListener("scroll", hideTip, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  const draw = async (figure) => {
    const { styles, charts } = figures[figure.dataset.figure];
    const hidden = new Set();
    const axis = figure.dataset.axis;
    const places = [...figure.querySelectorAll(".chart")];
    const drawn = places.map((place) => {
      const { spec, points, tips } = charts[place.dataset.panel];
      const tooltip = (handler, event, item, value) => {
        if (!value) return hideTip();
        const key = Number(value.key);
        const rows = tips[key].filter(([name]) => !hidden.has(name));
        if (!rows.length) return hideTip();
        return showTip(event, [axis, points[key]].filter(Boolean).join(": "), rows, styles);
      };
      const options = { actions: false, renderer: "svg", ast: true, defaultStyle: false, tooltip };
      return vegaEmbed(place, spec, options);
    });
    for (const toggle of figure.querySelectorAll("button[data-method]")) {
      toggle.addEventListener("click", async () => {
        const name = toggle.dataset.method;
        if (!hidden.delete(name)) hidden.add(name);
        toggle.setAttribute("aria-pressed", String(!hidden.has(name)));
        for (const { view } of await Promise.all(drawn)) {
          await view.signal("hidden", [...hidden]).runAsync();
        }
      });
    }
    await Promise.all(drawn);
  };

  // One after the other, with a pause, so that a long page answers while it is drawn.
  const drawAll = async () => {
    for (const figure of document.querySelectorAll("figure[data-figure]")) {
      await draw(figure);
      await new Promise((resume) => { setTimeout(resume); });
    }
  };
  drawAll().then(
    () => { root.dataset.drawn = "yes"; },
    (error) => { root.dataset.drawn = "failed"; console.error(error); },
  );

  // Paper has no clicks: everything is open there.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
})();
