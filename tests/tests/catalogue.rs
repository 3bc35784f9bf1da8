//! The threat model and the tests do not drift: each starred attack that is answered has a test that cites it, and what
//! the pages of `docs` name exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Attacks of the catalogue.
const ATTACKS: u32 = 96;
/// Places of the repository that hold nothing of ours to read.
const SKIPPED: [&str; 3] = ["target", ".git", ".cargo"];

#[test]
fn each_attack_has_one_row_and_each_row_an_answer_and_a_proof_or_a_reason() {
    let rows = rows();
    let numbers: Vec<u32> = rows.iter().map(|row| row.number).collect();
    assert_eq!(
        numbers,
        (1..=ATTACKS).collect::<Vec<_>>(),
        "docs/threat-model.md lists each attack once, in order"
    );
    let starred = rows.iter().filter(|row| row.starred).count();
    assert_eq!(starred, 35, "attacks that must have a test");
    for row in &rows {
        assert!(row.answer.len() > 5 && row.shown.len() > 5, "attack {} has an empty cell", row.number);
    }
}

#[test]
fn each_starred_attack_that_is_answered_is_cited_by_a_test() {
    let cited = cited();
    let mut wrong = Vec::new();
    for row in rows().iter().filter(|row| row.starred) {
        let (number, tests) = (row.number, cited.get(&row.number));
        match (row.exception(), tests) {
            (false, None) => wrong.push(format!(
                "attack {number} is starred, but no test cites it: write one whose name or comment says `attack {number}`, \
                 or write `no test: REASON` into its row of docs/threat-model.md"
            )),
            (true, Some(files)) => wrong.push(format!(
                "docs/threat-model.md says that attack {number} has no test, but {} cites it: name the test in its row",
                files.iter().next().map(String::as_str).unwrap_or_default()
            )),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tests_and_files_that_the_threat_model_names_exist() {
    let mut missing = Vec::new();
    for row in rows() {
        for quoted in row.answer.split('`').chain(row.shown.split('`')) {
            let (file, test) = quoted.split_once("::").unwrap_or((quoted, ""));
            if !file.ends_with(".rs") {
                continue;
            }
            let found =
                [root().join(file), root().join("host").join(file)].into_iter().find(|path| path.is_file());
            let Some(found) = found else {
                missing.push(format!("attack {}: no file {file}", row.number));
                continue;
            };
            if !test.is_empty() && !read(&found).contains(&format!("fn {test}(")) {
                missing.push(format!("attack {}: no test {test} in {file}", row.number));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_link_of_the_documentation_leads_to_a_file() {
    let mut broken = Vec::new();
    let mut links = 0;
    for page in files("md").into_iter().filter(|page| relative(page).starts_with("docs/")) {
        let folder = page.parent().expect("a file lies in a folder");
        for target in targets(&read(&page)) {
            links += 1;
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !folder.join(file).exists() {
                broken.push(format!("{}: {target}", relative(&page)));
            }
        }
    }
    assert!(links > 5, "links are found");
    assert!(broken.is_empty(), "links to nothing:\n{}", broken.join("\n"));
}

/// Without this the test above could pass by citing everything.
#[test]
fn citations_are_read_as_people_write_them() {
    for (text, numbers) in [
        ("fn a_loop_ends_attack_79() {", vec![79]),
        ("fn refused_whole_attacks_9_to_11() {", vec![9, 10, 11]),
        ("// (attacks 26 and 90)", vec![26, 90]),
        ("//! attacks 33, 34, 41).", vec![33, 34, 41]),
        ("an attack in words, 12 of them", vec![]),
        ("attack 4. 17 things", vec![4]),
        ("Attack 8: a table", vec![8]),
    ] {
        assert_eq!(citations(text), BTreeSet::from_iter(numbers), "{text}");
    }
    let file = "/// attack 3\nfn x() {}\n#[cfg(test)]\nmod tests {\n// attack 7\n#[test]\n";
    assert_eq!(
        citations(&tested("host/a/src/b.rs", file)),
        BTreeSet::from([7]),
        "only what stands in tests counts"
    );
    let example = "/// attack 56\n///\n/// ```compile_fail\n/// x\n/// ```\nstruct A; // attack 1\n";
    assert_eq!(
        citations(&tested("host/a/src/b.rs", example)),
        BTreeSet::from([56]),
        "so do compile-fail examples"
    );
}

/// One line of the tables of docs/threat-model.md.
struct Row {
    number: u32,
    starred: bool,
    answer: String,
    shown: String,
}

impl Row {
    /// Does the row state that there is no test, and why?
    fn exception(&self) -> bool {
        self.shown.starts_with("no test:")
    }
}

fn rows() -> Vec<Row> {
    let text = read(&root().join("docs/threat-model.md"));
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let [number, _, answer, shown] = cells[..] else { return None };
    let starred = number.ends_with('★');
    let number = number.trim_end_matches(['★', ' ']).parse().ok()?;
    Some(Row { number, starred, answer: answer.to_owned(), shown: shown.to_owned() })
}

/// Attacks that tests cite, with the files that do.
fn cited() -> BTreeMap<u32, BTreeSet<String>> {
    let mut cited: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for path in files("rs") {
        let name = relative(&path);
        if name == "tests/tests/catalogue.rs" {
            continue;
        }
        for number in citations(&tested(&name, &read(&path))) {
            cited.entry(number).or_default().insert(name.clone());
        }
    }
    cited
}

/// The part of a file that is tests: all of a file of tests, a module of tests at a file's end, and the comments of
/// compile-fail examples.
fn tested(name: &str, text: &str) -> String {
    let has_tests = text.contains("#[test]") || text.contains("#[tokio::test");
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".rs");
    // `tests/src` is what the tests of `tests/tests` stand on.
    let in_folder =
        if name.starts_with("tests/") { name.starts_with("tests/tests/") } else { name.contains("/tests/") };
    if has_tests && (in_folder || stem == "tests" || stem.ends_with("_tests")) {
        return text.to_owned();
    }
    let mut part = examples(text);
    if let Some(module) = text.split_once("#[cfg(test)]\nmod ").map(|(_, module)| module)
        && module.lines().next().is_some_and(|line| line.ends_with('{'))
    {
        part.push_str(module);
    }
    part
}

/// Blocks of documentation that hold a compile-fail example.
fn examples(text: &str) -> String {
    let mut found = String::new();
    let mut block = String::new();
    for line in text.lines().map(str::trim_start).chain([""]) {
        if line.starts_with("///") || line.starts_with("//!") {
            block.push_str(line);
            block.push('\n');
            continue;
        }
        if block.contains("```compile_fail") {
            found.push_str(&block);
        }
        block.clear();
    }
    found
}

/// Numbers after the word: `attack 8`, `attacks 9 to 11`, `attacks_26_and_90`.
fn citations(text: &str) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    let lower = text.to_lowercase();
    for rest in lower.split("attack").skip(1) {
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || " _,".contains(c))).unwrap_or(rest.len());
        let mut range = false;
        for word in rest[..end].split([' ', '_', ',']).filter(|word| !word.is_empty()) {
            match (word, word.parse::<u32>()) {
                ("and", _) => range = false,
                ("to", _) => range = true,
                (_, Ok(number)) => {
                    let from = numbers.last().copied().filter(|_| range).unwrap_or(number);
                    numbers.extend(from..=number);
                    range = false;
                }
                _ => break,
            }
        }
    }
    numbers
}

/// Targets of `[text](target)` that are no addresses of the web. Code is left out.
fn targets(page: &str) -> Vec<String> {
    let mut targets = Vec::new();
    let mut code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if !target.contains("://") && !target.is_empty() {
                targets.push(target.to_owned());
            }
        }
    }
    targets
}

fn files(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the repository can be read") {
            let path = entry.expect("the repository can be read").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !path.is_symlink() && !SKIPPED.contains(&name) {
                folders.push(path);
            } else if path.is_file() && path.extension().is_some_and(|it| it == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "the repository holds .{ending} files");
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the repository").to_owned()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
