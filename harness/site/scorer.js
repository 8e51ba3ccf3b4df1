// Ranks guides first; lists of pages, decisions, the changelog, docstrings and what contributors read come last.
const GUIDES = /^docs\/(how-to|tutorial)\//;
const LAST = /^(docs\/(decisions|contributing|reference\/docstrings|contents|index)|harness|CHANGELOG|CONTRIBUTING)/;
var Scorer = {
  score: ([page, , , , score]) => score + 4 * GUIDES.test(page) - 100 * LAST.test(page),
  // The rest are the numbers of Sphinx.
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
