//! A part of the catalog: what a search finds, or the next tools in an order.

use std::cmp::Ordering;
use std::sync::Arc;

use toolcrib_registry::{Entry, Registry, Snapshot};

use crate::problem::ApiError;

/// Which part is wanted.
pub(crate) struct Wanted<'a> {
    /// Words to search for.
    pub(crate) words: Option<&'a str>,
    /// The order; by name when none.
    pub(crate) sort: Option<&'a str>,
    /// The `next` of the page before.
    pub(crate) after: Option<&'a str>,
    /// How many at the most.
    pub(crate) most: usize,
}

/// The tools of the part that fit, and what the next part begins after.
pub(crate) struct CatalogPage<'a> {
    pub(crate) tools: Vec<&'a Arc<Entry>>,
    pub(crate) next: Option<String>,
}

impl<'a> CatalogPage<'a> {
    /// Reads a part. What is searched for comes best first and has no next part.
    pub(crate) fn read(
        registry: &Registry,
        snapshot: &'a Snapshot,
        wanted: &Wanted<'_>,
        fits: impl Fn(&Entry) -> bool,
    ) -> Result<Self, ApiError> {
        let Wanted { words, sort, after, most } = *wanted;
        let after = after.unwrap_or_default();
        match (words.filter(|words| !words.trim().is_empty()), sort) {
            (Some(words), _) => {
                let hits = registry.search(words, most, fits);
                let tools = hits.iter().filter_map(|hit| snapshot.tool(&hit.name)).collect();
                Ok(Self { tools, next: None })
            }
            (None, None | Some("name")) => {
                let mut found = snapshot.tools_after(after).filter(|tool| fits(tool));
                let tools: Vec<_> = found.by_ref().take(most).collect();
                let next = found.next().and_then(|_| tools.last().map(|last| last.name().to_owned()));
                Ok(Self { tools, next })
            }
            (None, Some(sort)) => {
                let found = snapshot.tools().filter(|tool| fits(tool)).collect();
                Ok(Self::sorted(found, order_named(sort)?, after.parse().unwrap_or_default(), most))
            }
        }
    }

    /// The part after the first `before`. Only what stands before its end is put in order.
    fn sorted(mut tools: Vec<&'a Arc<Entry>>, order: Order, before: usize, most: usize) -> Self {
        let whole = |a: &&Arc<Entry>, b: &&Arc<Entry>| order(a, b).then_with(|| a.name().cmp(b.name()));
        let end = before.saturating_add(most);
        let more = tools.len() > end;
        if more {
            tools.select_nth_unstable_by(end, whole);
            tools.truncate(end);
        }
        tools.sort_unstable_by(whole);
        let tools = tools.split_off(before.min(tools.len()));
        Self { next: more.then(|| end.to_string()), tools }
    }
}

type Order = fn(&Entry, &Entry) -> Ordering;

fn order_named(word: &str) -> Result<Order, ApiError> {
    match word {
        "group" => Ok(|a, b| (a.group().is_none(), a.group()).cmp(&(b.group().is_none(), b.group()))),
        "origin" => Ok(|a, b| a.origin().as_str().cmp(b.origin().as_str())),
        "updated" => Ok(|a, b| b.updated_at().cmp(&a.updated_at())),
        other => Err(ApiError::Request(format!("there is no order {other:?}: name, group, origin or updated"))),
    }
}
