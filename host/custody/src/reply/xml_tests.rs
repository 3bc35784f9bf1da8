use super::*;
use crate::reply::capture::capture;
use crate::reply::project::{Misfit, Source, project};
use crate::test_kit::{field, pointer};
use holdfast_manifest::{Capture, CaptureTo, Field, Place, Type};
use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};

static NONE: BTreeMap<String, String> = BTreeMap::new();

/// Local names alone count.
fn none() -> &'static BTreeMap<String, String> {
    &NONE
}

fn read(text: &str) -> bool {
    parse(text.as_bytes(), none()).is_some()
}

fn at(ty: Type, steps: &str) -> Field {
    let mut made = field(ty, "");
    made.at = vec![Place::Xml(pointer(steps))];
    made
}

fn optional(ty: Type, steps: &str) -> Field {
    Field { optional: true, ..at(ty, steps) }
}

fn of(text: &str, xmlns: &BTreeMap<String, String>, field: Field) -> Result<Value, Misfit> {
    let doc = parse(text.as_bytes(), xmlns).expect("it is one document");
    let source = Source { headers: &HeaderMap::new(), body: Some(&doc) };
    let fields = BTreeMap::from([("f".to_owned(), field)]);
    project(&fields, &source, &|_, _, _| None, true).map(|map| map.get("f").cloned().unwrap_or(Value::Null))
}

#[test]
fn what_expands_redirects_or_reads_differently_is_refused_attack_44() {
    assert!(read("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a --><a x='1'><b/>\n<c>t</c></a>\n"));
    assert!(read("\u{feff}<a>x</a>"));
    let depth = |n: usize| format!("{}{}", "<a>".repeat(n), "</a>".repeat(n));
    assert!(read(&depth(DEPTH)) && !read(&depth(DEPTH + 1)));
    let wide = |n: usize| format!("<a>{}</a>", "<b/>".repeat(n));
    assert!(read(&wide(NODES - 1)) && !read(&wide(NODES)));
    for bad in [
        "",
        "   ",
        "text",
        "<a>",
        "<a></b>",
        "</a>",
        "<a/><b/>",
        "<a/>x",
        "x<a/>",
        "<a>x<b/></a>",
        "<a><b/>x</a>",
        "<a>x<!-- c -->y</a>",
        "<a><!-- c -->y</a>",
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>",
        "<!DOCTYPE a [<!ENTITY e 'x'>]><a>x</a>",
        "<a>&e;</a>",
        "<a>&nbsp;</a>",
        "<a>&#0;</a>",
        "<a>&#x1;</a>",
        "<a>&#xFFFF;</a>",
        "<a>&#xD800;</a>",
        "<a>& </a>",
        "<a>\u{1}</a>",
        "<?php x ?><a/>",
        "<a><?php x ?></a>",
        "<?xml version=\"1.0\" encoding=\"UTF-16\"?><a/>",
        "<a/><?xml version=\"1.0\"?>",
        "<p:a/>",
        "<a xmlns:p='u'><q:b/></a>",
    ] {
        assert!(!read(bad), "{bad}");
    }
    assert!(parse(b"<a>\xff</a>", none()).is_none(), "not UTF-8");
}

#[test]
fn text_is_decoded_once_and_exactly() {
    let text = |body: &str| of(body, none(), at(Type::Text(100), "/a"));
    for (body, expected) in [
        ("<a>plain</a>", "plain"),
        ("<a>&lt;&gt;&amp;&apos;&quot;</a>", "<>&'\""),
        ("<a>&amp;lt;</a>", "&lt;"),
        ("<a>x&#65;&#x42;y</a>", "xABy"),
        ("<a><![CDATA[<b>&amp;</b>]]>z</a>", "<b>&amp;</b>z"),
        ("<a> x </a>", " x "),
    ] {
        assert_eq!(text(body), Ok(json!(expected)), "{body}");
    }
    let sealed = |body: &'static str| {
        let doc = parse(body.as_bytes(), none()).unwrap();
        let selected = select(&doc, &pointer("/a").0, false).unwrap();
        crate::reply::project::text_of(&selected.found[0]).unwrap().into_owned()
    };
    assert_eq!(sealed("<a>x\r\ny\rz&#13;</a>"), "x\ny\nz\r", "line ends are one, written ones stay");
}

#[test]
fn scalars_lists_and_tables_are_projected_like_those_of_json() {
    let body = "<R><set><item><id>i-1</id><n>7</n><tags><t><k>a</k><v>1</v></t><t><k>b</k><v>2</v></t></tags>\
                </item><item><id>i-2</id><n>8</n><tags/></item></set><none/><flag>true</flag></R>";
    let is = |field: Field, expected: Value| assert_eq!(of(body, none(), field), Ok(expected));
    is(at(Type::Bool, "/R/flag"), json!(true));
    is(at(Type::Id, "/R/set/item/*/id"), json!(["i-1", "i-2"]));
    is(at(Type::Int, "/R/set/item/*/n"), json!([7, 8]));
    is(at(Type::Id, "/R/none/item/*/id"), json!([]));
    is(at(Type::Id, "/R/set/item/[id=i-2]/n"), json!("8"));
    is(at(Type::Id, "/R/set/item/*/tags/t/[k=b]/v"), json!(["2"]));
    is(optional(Type::Id, "/R/set/item/[id=i-3]/n"), Value::Null);
    is(optional(Type::Id, "/R/absent/item/*/id"), Value::Null);
    is(optional(Type::Id, "/R/none"), Value::Null);
    let mut table = at(Type::Sealed, "/R/set/item/*");
    table.each = Some(BTreeMap::from([
        ("id".to_owned(), at(Type::Id, "/id")),
        ("tag".to_owned(), optional(Type::Word, "/tags/t/[k=a]/v")),
        ("tags".to_owned(), at(Type::Id, "/tags/t/*/v")),
    ]));
    is(
        Field {
            each: table.each.clone().map(|mut each| {
                each.remove("tag");
                each
            }),
            ..table.clone()
        },
        json!([{"id": "i-1", "tags": ["1", "2"]}, {"id": "i-2", "tags": []}]),
    );
    table.each.as_mut().unwrap().get_mut("tag").unwrap().ty = Type::Id;
    is(table, json!([{"id": "i-1", "tag": "1", "tags": ["1", "2"]}, {"id": "i-2", "tags": []}]));
}

#[test]
fn what_a_reply_lacks_or_repeats_does_not_fit() {
    let misfit = |body: &str, field: Field| of(body, none(), field).unwrap_err().found;
    assert_eq!(misfit("<R/>", at(Type::Id, "/R/id")), "nothing");
    assert_eq!(misfit("<R><id/></R>", at(Type::Id, "/R/id")), "nothing");
    assert_eq!(misfit("<R/>", at(Type::Id, "/R/set/item/*/id")), "nothing");
    assert_eq!(misfit("<Other><id>1</id></Other>", at(Type::Id, "/R/id")), "nothing");
    assert_eq!(misfit("<R><id><x>1</x></id></R>", at(Type::Id, "/R/id")), "an element with elements");
    assert_eq!(misfit("<R><id>a b</id></R>", at(Type::Id, "/R/id")), "a string of 1 to 8 bytes");
    let twice = "several elements where one is declared";
    assert_eq!(misfit("<R><id>1</id><id>2</id></R>", at(Type::Id, "/R/id")), twice);
    assert_eq!(misfit("<R><id>1</id><id>2</id></R>", optional(Type::Id, "/R/id")), twice);
    assert_eq!(misfit("<R><s><id>1</id></s><s/></R>", at(Type::Id, "/R/s/id")), twice);
    let tags = "<R><t><k>a</k><v>1</v></t><t><k>a</k><v>2</v></t></R>";
    assert_eq!(misfit(tags, at(Type::Id, "/R/t/[k=a]/v")), twice);
    let hole = "<R><i><id>1</id></i><i/></R>";
    assert_eq!(misfit(hole, at(Type::Id, "/R/i/*/id")), "a list with gaps");
    let mut short = at(Type::Id, "/R/id/*");
    short.max_items = Some(2);
    assert!(of("<R><id>1</id><id>2</id></R>", none(), short.clone()).is_ok());
    assert_eq!(misfit("<R><id>1</id><id>2</id><id>3</id></R>", short), "a list of more than 2 elements");
    // A place of JSON reads nothing of XML.
    assert_eq!(misfit("<R><id>1</id></R>", field(Type::Id, "/R/id")), "nothing");
}

#[test]
fn names_count_with_their_namespace_where_the_manifest_declares_one() {
    let table = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(p, u)| ((*p).to_owned(), (*u).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let (plain, prefixed) =
        (table(&[("default", "urn:ec2")]), table(&[("default", "urn:ec2"), ("m", "urn:m")]));
    let id = || at(Type::Id, "/R/id");
    let same = "<R xmlns='urn:ec2'><id>1</id></R>";
    let other = "<R xmlns='urn:evil'><id>1</id></R>";
    let bare = "<R><id>1</id></R>";
    let mixed = "<x:R xmlns:x='urn:ec2' xmlns:y='urn:evil'><y:id>evil</y:id><x:id>1</x:id></x:R>";
    for body in [same, other, bare] {
        assert_eq!(of(body, none(), id()), Ok(json!("1")), "local names alone: {body}");
    }
    for body in [same, bare, mixed] {
        assert_eq!(of(body, &plain, id()), Ok(json!("1")), "the default namespace or none: {body}");
    }
    assert!(of(other, &plain, id()).is_err(), "a foreign namespace is another name");
    assert_eq!(
        of(mixed, none(), id()).unwrap_err().found,
        "several elements where one is declared",
        "without a table both are the same name"
    );
    let body = "<R xmlns='urn:ec2' xmlns:q='urn:m'><q:id>2</q:id><id>1</id></R>";
    assert_eq!(of(body, &prefixed, at(Type::Id, "/R/m:id")), Ok(json!("2")));
    assert_eq!(of(body, &prefixed, id()), Ok(json!("1")));
    assert!(of(bare, &prefixed, at(Type::Id, "/R/m:id")).is_err(), "a prefix wants its namespace");
}

#[test]
fn captures_take_every_text_below_and_every_double_attack_47() {
    let doc = parse(b"<R><data>first-secret</data><data><x>second</x><y>th&#105;rd</y></data></R>", none());
    let capture_at = Capture { at: Place::Xml(pointer("/R/data")), optional: false, to: CaptureTo::Scan };
    let captures = BTreeMap::from([("data".to_owned(), capture_at)]);
    let captured = capture(&captures, &Source { headers: &HeaderMap::new(), body: doc.as_ref() });
    let texts: Vec<_> =
        captured.values["data"].iter().map(|value| value.text().unwrap().to_owned()).collect();
    assert_eq!(texts, ["first-secret", "second", "third"]);
    assert!(captured.one("data").is_none(), "a session's value is one");
}

/// A text as a service may write it: each character plain, as an entity, or as a reference.
fn escaped(text: &str, how: &[u8]) -> String {
    let write = |(c, how): (char, &u8)| match (c, how % 3) {
        ('<', _) => "&lt;".to_owned(),
        ('&', 0) => "&amp;".to_owned(),
        ('&' | '\r', _) | (_, 1) => format!("&#{};", c as u32),
        (_, 2) => format!("&#x{:x};", c as u32),
        _ => c.to_string(),
    };
    text.chars().zip(how.iter().cycle()).map(write).collect()
}

proptest! {
    #[test]
    fn any_text_comes_back_whatever_its_escapes(text in "[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\u{fffe}\\u{ffff}]{1,40}", how in proptest::collection::vec(0u8..3, 1..8)) {
        prop_assume!(!text.chars().all(|c| c.is_ascii_whitespace()));
        let body = format!("<a>{}</a>", escaped(&text, &how));
        let doc = parse(body.as_bytes(), none()).unwrap();
        let selected = select(&doc, &pointer("/a").0, false).unwrap();
        let found = crate::reply::project::text_of(&selected.found[0]).unwrap().into_owned();
        prop_assert_eq!(found, text);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(body in proptest::collection::vec(any::<u8>(), 0..80), shape in "[<>/a&;#x!?\\[\\]\" =-]{0,60}") {
        let _ = parse(&body, none());
        let _ = parse(shape.as_bytes(), none());
        let _ = parse(format!("<a>{shape}</a>").as_bytes(), none());
    }
}
