//! Paging, run by the host: all pages or none (section 8).

use super::project::{Source, is_repeated, text_at};
use holdfast_manifest::{NextPage, Pages};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Collects pages until the service names no next one.
pub(crate) struct Collector<'m> {
    pages: &'m Pages,
    seen: HashSet<String>,
    reply: Map<String, Value>,
    count: u32,
}

/// What to do after a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    Ask(String),
}

impl<'m> Collector<'m> {
    pub fn new(pages: &'m Pages) -> Collector<'m> {
        Collector { pages, seen: HashSet::new(), reply: Map::new(), count: 0 }
    }

    /// Adds one projected page. An error fails the whole call: there are no half lists.
    pub fn add(&mut self, fields: Map<String, Value>, source: &Source<'_>) -> Result<Next, &'static str> {
        self.merge(fields)?;
        self.count += 1;
        let Some(next) = next_token(self.pages, source)? else { return Ok(Next::Done) };
        if next.len() > super::types::SEALED_MAX || next.chars().any(char::is_control) {
            return Err("a page token does not fit");
        }
        if self.count >= self.pages.max_pages {
            return Err("there are more pages than `max-pages`");
        }
        if !self.seen.insert(next.clone()) {
            return Err("a page token was repeated");
        }
        Ok(Next::Ask(next))
    }

    pub fn finish(self) -> Map<String, Value> {
        self.reply
    }

    fn merge(&mut self, mut fields: Map<String, Value>) -> Result<(), &'static str> {
        let items = fields.remove(&self.pages.items);
        for (name, value) in fields {
            self.reply.entry(name).or_insert(value);
        }
        let list = self.reply.entry(self.pages.items.clone()).or_insert_with(|| Value::Array(Vec::new()));
        match (list, items) {
            (_, None) => Ok(()),
            (Value::Array(all), Some(Value::Array(more))) if all.len() + more.len() <= 100_000 => {
                all.extend(more);
                Ok(())
            }
            _ => Err("the pages hold too many items"),
        }
    }
}

/// The next page's token; missing, null and empty end the list.
fn next_token(pages: &Pages, source: &Source<'_>) -> Result<Option<String>, &'static str> {
    let places = match &pages.next {
        NextPage::Token(place) => vec![place],
        NextPage::Count { page, of } => vec![page, of],
    };
    if places.into_iter().any(|place| is_repeated(place, source)) {
        return Err("the next page is named twice");
    }
    match &pages.next {
        NextPage::Token(place) => Ok(text_at(place, source).filter(|text| !text.is_empty())),
        NextPage::Count { page, of } => {
            let number = |place| {
                text_at(place, source)
                    .map(|text| text.parse::<u32>().map_err(|_| "a page number does not fit"))
            };
            match (number(page).transpose()?, number(of).transpose()?) {
                (Some(page), Some(of)) if page < of => Ok(Some((page + 1).to_string())),
                _ => Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;
    use super::*;
    use crate::test_kit::pointer;
    use holdfast_manifest::Place;
    use http::HeaderMap;
    use serde_json::json;

    fn pages(next: NextPage) -> Pages {
        Pages { items: "list".into(), next, into: Place::Query("page".into()), max_pages: 3 }
    }

    fn page(collector: &mut Collector<'_>, item: u32, body: &str) -> Result<Next, &'static str> {
        let fields = json!({"list": [item]}).as_object().unwrap().clone();
        let doc = parse(body.as_bytes()).unwrap();
        collector.add(fields, &Source { headers: &HeaderMap::new(), body: Some(&doc) })
    }

    /// Field case L04.
    #[test]
    fn pages_end_at_missing_null_or_empty_and_grow_one_list() {
        for end in ["{}", r#"{"next": null}"#, r#"{"next": ""}"#] {
            let pages = pages(NextPage::Token(Place::Json(pointer("/next"))));
            let mut collector = Collector::new(&pages);
            assert_eq!(page(&mut collector, 1, r#"{"next": "b"}"#), Ok(Next::Ask("b".into())));
            assert_eq!(page(&mut collector, 2, end), Ok(Next::Done));
            assert_eq!(collector.finish()["list"], json!([1, 2]));
        }
    }

    /// Field case L04.
    #[test]
    fn a_repeated_token_or_too_many_pages_fail_the_call() {
        let pages = pages(NextPage::Token(Place::Json(pointer("/next"))));
        let mut collector = Collector::new(&pages);
        page(&mut collector, 1, r#"{"next": "b"}"#).unwrap();
        assert!(page(&mut collector, 1, r#"{"next": "b"}"#).is_err());
        let mut collector = Collector::new(&pages);
        page(&mut collector, 1, r#"{"next": "b"}"#).unwrap();
        page(&mut collector, 1, r#"{"next": "c"}"#).unwrap();
        assert!(page(&mut collector, 1, r#"{"next": "d"}"#).is_err());
    }

    #[test]
    fn page_numbers_count_up_to_the_last() {
        let at = |p: &str| Place::Json(pointer(p));
        let pages = pages(NextPage::Count { page: at("/page"), of: at("/pages") });
        let mut collector = Collector::new(&pages);
        assert_eq!(page(&mut collector, 1, r#"{"page": 1, "pages": 2}"#), Ok(Next::Ask("2".into())));
        assert_eq!(page(&mut collector, 1, r#"{"page": 2, "pages": 2}"#), Ok(Next::Done));
    }
}
