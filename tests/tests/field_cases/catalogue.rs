//! docs/field-cases.md and the tests do not drift: each case stands there once, with a test that cites its id, a gap, or a
//! reason why it does not apply.

use std::collections::BTreeSet;
use std::path::Path;

use holdfast_tests::folders;

/// Every case of the catalogue that can be shown against a fake HTTP API, by family. S-rows and others are not here.
const CASES: [(char, &[u8]); 10] = [
    ('A', &[1, 2, 3, 4, 6, 8, 9, 11, 12, 13, 14, 16, 17, 18, 21, 22, 23, 24, 26, 27, 28, 29, 32]),
    ('B', &[1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 17, 18, 22, 23, 26]),
    ('C', &[1, 2, 3, 8, 9, 11, 13, 14, 16, 17, 18, 24]),
    ('D', &[1, 2, 4, 6, 7, 8, 9, 11, 12, 13, 17, 18, 19]),
    ('E', &[1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 17, 18]),
    ('F', &[1, 2, 4, 6, 7, 8, 9, 11, 13, 14, 17]),
    ('G', &[1, 2, 3, 4, 6, 7, 8, 9, 11]),
    ('J', &[1, 2, 3, 4, 6, 7, 9]),
    ('K', &[1, 2, 3, 4, 6, 7, 11, 12]),
    ('L', &[1, 2, 3, 4, 7, 8]),
];

#[test]
fn each_case_has_one_row() {
    let rows = rows();
    let listed: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(listed, ids(), "docs/field-cases.md lists each case once, in order");
    for row in &rows {
        assert!(row.elsewhere.len() > 5 && row.here.len() > 5, "{} has an empty cell", row.id);
    }
}

#[test]
fn each_row_names_tests_that_cite_it_or_says_why_there_is_none() {
    let mut wrong = Vec::new();
    for row in rows() {
        if let Shown::Reason(reason) = &row.shown {
            if reason.len() < 15 {
                wrong.push(format!("{}: no reason is given", row.id));
            }
            continue;
        }
        let Shown::By(tests) = &row.shown else {
            wrong.push(format!("{}: names no test, and does not begin with `gap:` or `not here:`", row.id));
            continue;
        };
        for (file, test) in tests {
            match std::fs::read_to_string(folders::checkout().join(file)) {
                Err(_) => wrong.push(format!("{}: there is no {file}", row.id)),
                Ok(text) if !cites(&text, test, &row.id) => {
                    wrong.push(format!("{}: {test} in {file} is not there, or does not cite it", row.id));
                }
                Ok(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_counts_right() {
    let (mut shown, mut gaps, mut elsewhere) = (0, 0, 0);
    for row in rows() {
        match &row.shown {
            Shown::Reason(reason) if reason.starts_with("gap:") => gaps += 1,
            Shown::Reason(_) => elsewhere += 1,
            _ => shown += 1,
        }
    }
    let said = format!(
        "Of {} cases {shown} are shown by tests, {elsewhere} have no place here, and {gaps} are gaps.",
        ids().len()
    );
    assert!(page().contains(&said), "docs/field-cases.md is to say: {said}");
}

/// Without this the tests above could pass by finding everything.
#[test]
fn citations_are_found_where_they_stand_and_nowhere_else() {
    let text = "/// Case A03, and L02.\n#[tokio::test]\nasync fn one_thing_d09() {\n}\n\n#[test]\nfn other() {\n    // B01\n}\n";
    for (test, id, expected) in [
        ("one_thing_d09", "A03", true),
        ("one_thing_d09", "L02", true),
        ("one_thing_d09", "D09", true),
        ("one_thing_d09", "B01", false),
        ("other", "B01", false),
        ("other", "D09", false),
        ("missing", "A03", false),
    ] {
        assert_eq!(cites(text, test, id), expected, "{test} {id}");
    }
}

struct Row {
    id: String,
    elsewhere: String,
    here: String,
    shown: Shown,
}

enum Shown {
    /// File and test.
    By(Vec<(String, String)>),
    Reason(String),
    Nothing,
}

fn rows() -> Vec<Row> {
    page().lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [id, elsewhere, here, shown] = cells[..] else { return None };
    let is_id =
        id.len() == 3 && id.starts_with(|c: char| c.is_ascii_uppercase()) && id[1..].parse::<u8>().is_ok();
    let quoted = shown.split('`').skip(1).step_by(2).filter_map(|it| it.split_once("::"));
    let tests: Vec<(String, String)> =
        quoted.map(|(file, test)| (file.to_owned(), test.to_owned())).collect();
    let shown = match (shown.starts_with("gap:") || shown.starts_with("not here:"), tests.is_empty()) {
        (true, _) => Shown::Reason(shown.to_owned()),
        (false, false) => Shown::By(tests),
        (false, true) => Shown::Nothing,
    };
    is_id.then(|| Row { id: id.to_owned(), elsewhere: elsewhere.to_owned(), here: here.to_owned(), shown })
}

/// Does the test exist, and stands the id in its name or in the comment directly above it?
fn cites(text: &str, test: &str, id: &str) -> bool {
    let Some(at) = text.find(&format!("fn {test}(")) else { return false };
    // The test's own line begins with `async` or with spaces.
    let before = text[..at].rsplit_once('\n').map_or("", |(before, _)| before);
    let above = before.lines().rev().take_while(|line| !line.trim().is_empty() && line.trim() != "}");
    let commented: String = above.filter(|line| line.trim_start().starts_with("//")).collect();
    let words: BTreeSet<String> = test
        .split('_')
        .chain(commented.split(|c: char| !c.is_ascii_alphanumeric()))
        .map(str::to_uppercase)
        .collect();
    words.contains(id)
}

fn ids() -> Vec<String> {
    CASES
        .iter()
        .flat_map(|(family, numbers)| numbers.iter().map(move |n| format!("{family}{n:02}")))
        .collect()
}

fn page() -> String {
    let path: &Path = &folders::checkout().join("docs/field-cases.md");
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
