//! Full-text search over name, description, parameter names, group and tags.
//!
//! Scores are BM25 over weighted fields. The index is changed in place behind a lock: a changed
//! tool is a new document, the old one is marked dead and swept when half of them are, so a write
//! costs what its own words cost.

use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

use toolcrib_definition::ToolView;

use crate::words::words;

/// How much a word counts by where it stands.
const NAME: f32 = 4.0;
const PARAMETER: f32 = 1.5;
const GROUP: f32 = 1.5;
const DESCRIPTION: f32 = 1.0;
/// A word of the query that only begins a word of the tool counts this much.
const PREFIX: f32 = 0.6;
/// How many words a prefix may stand for.
const MAX_EXPANSIONS: usize = 64;
/// The parameters of BM25, at their usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// A tool that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Its name.
    pub name: String,
    /// How well it fits; only the order means anything.
    pub score: f32,
}

#[derive(Clone, Copy)]
struct Posting {
    document: u32,
    weight: f32,
}

struct Document {
    name: Box<str>,
    length: f32,
    alive: bool,
}

#[derive(Default)]
struct Index {
    terms: BTreeMap<Box<str>, u32>,
    postings: Vec<Vec<Posting>>,
    documents: Vec<Document>,
    by_name: HashMap<Box<str>, u32>,
    total_length: f64,
    dead: usize,
}

/// The index of a catalog.
#[derive(Default)]
pub(crate) struct Search {
    index: RwLock<Index>,
}

impl Search {
    /// Puts a tool in, in the place of one with the same name.
    pub(crate) fn put(&self, tool: ToolView<'_>, group: Option<&str>, tags: &[String]) {
        let mut weights: BTreeMap<String, f32> = BTreeMap::new();
        let mut add = |text: &str, weight: f32| {
            for word in words(text) {
                *weights.entry(word).or_default() += weight;
            }
        };
        add(tool.name.as_str(), NAME);
        add(tool.description, DESCRIPTION);
        tool.parameters.names().for_each(|name| add(name, PARAMETER));
        group.into_iter().for_each(|group| add(group, GROUP));
        tags.iter().for_each(|tag| add(tag, GROUP));
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.remove(tool.name.as_str());
        index.insert(tool.name.as_str(), weights);
        index.sweep();
    }

    /// Takes a tool out.
    pub(crate) fn remove(&self, name: &str) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.remove(name);
        index.sweep();
    }

    /// The best tools for a query that `accept` lets through, best first.
    pub(crate) fn find(&self, query: &str, most: usize, accept: impl Fn(&str) -> bool) -> Vec<Hit> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.find(query, most, accept)
    }
}

impl Index {
    fn insert(&mut self, name: &str, weights: BTreeMap<String, f32>) {
        let document = u32::try_from(self.documents.len()).unwrap_or(u32::MAX);
        let length: f32 = weights.values().sum();
        for (word, weight) in weights {
            let next = self.postings.len();
            let term =
                *self.terms.entry(word.into_boxed_str()).or_insert_with(|| u32::try_from(next).unwrap_or(u32::MAX));
            if term as usize == next {
                self.postings.push(Vec::new());
            }
            self.postings[term as usize].push(Posting { document, weight });
        }
        self.documents.push(Document { name: name.into(), length, alive: true });
        self.by_name.insert(name.into(), document);
        self.total_length += f64::from(length);
    }

    fn remove(&mut self, name: &str) {
        if let Some(document) = self.by_name.remove(name) {
            let document = &mut self.documents[document as usize];
            document.alive = false;
            self.total_length -= f64::from(document.length);
            self.dead += 1;
        }
    }

    /// Drops dead documents once they are the greater part.
    fn sweep(&mut self) {
        if self.dead < 1_000 || self.dead < self.by_name.len() {
            return;
        }
        let mut moved = vec![u32::MAX; self.documents.len()];
        let mut kept = Vec::with_capacity(self.by_name.len());
        for (old, document) in std::mem::take(&mut self.documents).into_iter().enumerate() {
            if document.alive {
                moved[old] = u32::try_from(kept.len()).unwrap_or(u32::MAX);
                kept.push(document);
            }
        }
        for list in &mut self.postings {
            list.retain_mut(|posting| {
                posting.document = moved[posting.document as usize];
                posting.document != u32::MAX
            });
            list.shrink_to_fit();
        }
        let postings = &mut self.postings;
        self.terms.retain(|_, term| !postings[*term as usize].is_empty());
        // Numbers are given anew, so that words which are gone leave nothing behind.
        let mut packed = Vec::with_capacity(self.terms.len());
        for term in self.terms.values_mut() {
            packed.push(std::mem::take(&mut postings[*term as usize]));
            *term = u32::try_from(packed.len() - 1).unwrap_or(u32::MAX);
        }
        self.postings = packed;
        for document in self.by_name.values_mut() {
            *document = moved[*document as usize];
        }
        self.documents = kept;
        self.dead = 0;
    }

    fn find(&self, query: &str, most: usize, accept: impl Fn(&str) -> bool) -> Vec<Hit> {
        let query_words: Vec<String> = words(query).collect();
        let alive = self.by_name.len();
        if query_words.is_empty() || alive == 0 || most == 0 {
            return Vec::new();
        }
        let average = (self.total_length / alive as f64) as f32;
        let mut scores = vec![0f32; self.documents.len()];
        for word in &query_words {
            for (term, share) in self.expansions(word) {
                self.score(term, share, average, &mut scores);
            }
        }
        let whole = query_words.join("_");
        let mut found: Vec<(f32, u32)> = scores
            .iter()
            .enumerate()
            .filter(|(i, score)| **score > 0.0 && self.documents[*i].alive)
            .map(|(i, score)| (*score, u32::try_from(i).unwrap_or(u32::MAX)))
            .collect();
        // Somebody who types the name wants that tool.
        let named = self.by_name.get(query.trim()).or_else(|| self.by_name.get(whole.as_str()));
        if let Some(hit) = found.iter_mut().find(|(_, document)| Some(document) == named) {
            hit.0 += 1_000.0;
        }
        let order = |a: &(f32, u32), b: &(f32, u32)| {
            let name = |hit: &(f32, u32)| &self.documents[hit.1 as usize].name;
            b.0.total_cmp(&a.0).then_with(|| name(a).cmp(name(b)))
        };
        let mut hits = Vec::new();
        // Most queries are answered from the front; the rest is sorted only when that is refused.
        let front = most.saturating_mul(4).max(64).min(found.len());
        if front < found.len() {
            found.select_nth_unstable_by(front, order);
        }
        let (best, rest) = found.split_at_mut(front);
        for part in [best, rest] {
            part.sort_unstable_by(order);
            for (score, document) in part.iter() {
                if hits.len() == most {
                    return hits;
                }
                let name = &self.documents[*document as usize].name;
                if accept(name) {
                    hits.push(Hit { name: name.to_string(), score: *score });
                }
            }
        }
        hits
    }

    /// The terms a word of the query stands for: itself, and those it begins.
    fn expansions<'a>(&'a self, word: &'a str) -> impl Iterator<Item = (u32, f32)> + 'a {
        let exact = self.terms.get(word).map(|term| (*term, 1.0));
        let prefixed = self
            .terms
            .range::<str, _>((std::ops::Bound::Excluded(word), std::ops::Bound::Unbounded))
            .take_while(move |(term, _)| term.starts_with(word))
            .take(if word.chars().count() >= 3 { MAX_EXPANSIONS } else { 0 })
            .map(|(_, term)| (*term, PREFIX));
        exact.into_iter().chain(prefixed)
    }

    fn score(&self, term: u32, share: f32, average: f32, scores: &mut [f32]) {
        let list = &self.postings[term as usize];
        let (all, with) = (self.by_name.len() as f32, list.len().min(self.by_name.len()) as f32);
        let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln() * share;
        for posting in list {
            let length = self.documents[posting.document as usize].length;
            let norm = K1 * (1.0 - B + B * length / average.max(1.0));
            scores[posting.document as usize] += rarity * posting.weight * (K1 + 1.0) / (posting.weight + norm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolcrib_definition::Definition;

    fn search_of(tools: &[(&str, &str)]) -> Search {
        let search = Search::default();
        for (name, description) in tools {
            put(&search, name, description);
        }
        search
    }

    fn put(search: &Search, name: &str, description: &str) {
        let json = serde_json::json!({
            "name": name, "description": description, "request": { "url": "https://api.example.com" },
        });
        search.put((&Definition::from_value(&json).unwrap()).into(), None, &[]);
    }

    fn names(search: &Search, query: &str) -> Vec<String> {
        search.find(query, 10, |_| true).into_iter().map(|hit| hit.name).collect()
    }

    #[test]
    fn ranks_as_a_person_expects() {
        let search = search_of(&[
            ("create_order", "Place an order for a customer"),
            ("cancel_order", "Cancel an order that was placed"),
            ("search_products", "Search the catalog of products"),
            ("list_refunds", "List refunds of orders"),
            ("order", "Everything about one order"),
            ("get_weather", "Weather of a city"),
        ]);
        let check = |query: &str, first: &[&str]| {
            assert_eq!(names(&search, query)[..first.len()], *first, "{query}");
        };
        check("cancel order", &["cancel_order"]);
        check("order", &["order"]);
        check("create_order", &["create_order"]);
        check("refund", &["list_refunds"]);
        check("prod", &["search_products"]);
        check("Weather in Paris", &["get_weather"]);
        assert_eq!(names(&search, "xylophone"), Vec::<String>::new());
        assert_eq!(names(&search, " ,; "), Vec::<String>::new());
    }

    #[test]
    fn changes_replace_and_sweeping_keeps_what_lives() {
        let search = search_of(&[("a_tool", "alpha"), ("b_tool", "beta")]);
        for round in 0..2_500 {
            put(&search, "a_tool", if round % 2 == 0 { "gamma" } else { "delta" });
        }
        assert_eq!(names(&search, "delta"), ["a_tool"]);
        assert_eq!(names(&search, "gamma"), Vec::<String>::new());
        assert_eq!(names(&search, "beta"), ["b_tool"]);
        search.remove("a_tool");
        assert_eq!(names(&search, "delta"), Vec::<String>::new());
    }
}
