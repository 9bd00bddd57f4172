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
  // numbers alone are no names: said in full where nothing beside them says what they are
  const queryTitle = (query) => (/^\d+$/.test(queryName(query)) ? `Query ${queryName(query)}` : queryName(query));
  const docTitle = (doc) => (/^\d+$/.test(docName(doc)) ? `doc ${docName(doc)}` : docName(doc));
  const featureTitle = (name) => (/^\d+$/.test(name) ? `feature ${name}` : name);
  const docName = (doc) => docColumns.map(([, values]) => values[doc]).find(Boolean) || meta.docs[doc];
  const clicksOf = (query) => docsOf(query).reduce((sum, doc) => sum + data.clicks[doc], 0);
  const byRank = (query, of) => docsOf(query).sort((a, b) => of(a) - of(b));
  const loggedRank = (doc) => data.logged[doc];
  const title = () => meta.rankers[state.ranker][1];

  return {
    data, meta, state, queries, docs, heldOut, queryColumns, docColumns, gain, half, rank, docsOf, queryName, queryTitle,
    docTitle, featureTitle, docName, clicksOf, byRank, loggedRank, title,
  };
};
