// The data as the page asks for them, under what is chosen: `state`.
const Z = 1.96;
const REASONS = {
  traffic: "of most sessions", gain: "of largest gain", loss: "of largest loss", random: "drawn at random",
};

const viewOf = (data) => {
  const { meta } = data;
  const queries = meta.queries.length;
  const docs = meta.docs.length;
  const heldOut = new Set(meta.heldOut);
  const queryColumns = Object.entries(meta.queryColumns);
  const docColumns = Object.entries(meta.docColumns);
  const state = { query: -1, ranker: 0, sort: "gain", show: "all", search: "", held: false, chosen: [] };

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
  // the first text of a doc names it, with its id where another doc of the query has the same
  const texts = meta.docs.map((_, doc) => docColumns.map(([, values]) => values[doc]).find(Boolean));
  const names = meta.queries.flatMap((_, query) => {
    const times = new Map();
    for (const doc of docsOf(query)) times.set(texts[doc], (times.get(texts[doc]) || 0) + 1);
    return docsOf(query).map((doc) => {
      if (!texts[doc]) return meta.docs[doc];
      return times.get(texts[doc]) > 1 ? `${texts[doc]} (${meta.docs[doc]})` : texts[doc];
    });
  });
  const docName = (doc) => names[doc];
  // numbers alone are no names: said in full where nothing beside them says what they are
  const queryTitle = (query) => (/^\d+$/.test(queryName(query)) ? `Query ${queryName(query)}` : queryName(query));
  const docTitle = (doc) => (/^\d+$/.test(docName(doc)) ? `doc ${docName(doc)}` : docName(doc));
  const featureTitle = (name) => (/^\d+$/.test(name) ? `feature ${name}` : name);
  const clicksOf = (query) => docsOf(query).reduce((sum, doc) => sum + data.clicks[doc], 0);
  const byRank = (query, of) => docsOf(query).sort((a, b) => of(a) - of(b));
  const loggedRank = (doc) => data.logged[doc];
  const title = () => meta.rankers[state.ranker][1];

  return {
    data, meta, state, queries, docs, heldOut, queryColumns, docColumns, gain, half, rank, docsOf, queryName, queryTitle,
    docTitle, featureTitle, docName, clicksOf, byRank, loggedRank, title,
  };
};
