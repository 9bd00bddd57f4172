// CSV, one row a doc. A text that a spreadsheet would take for a formula gets a quote before it.
const csvDownload = (view) => {
  const { data, meta, state, queryColumns, docColumns, gain, half, rank, byRank } = view;

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

  return download;
};
