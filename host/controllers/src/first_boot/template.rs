//! Renders a template of first-boot data, pure: text and values in, bytes out.
//!
//! The engine never holds a secret: where a secret value stands, it is given a placeholder. Filters on a placeholder
//! make another one; all of them are filled in after the engine is done, in buffers that are wiped.

use std::io;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};

use super::filters;
use super::placeholder::{FIRST, LAST, Secrets};
use crate::rooms::Secret;

/// Longest template, in bytes.
pub const MAX_TEMPLATE: usize = 64 * 1024;
/// Longest first-boot data that is built, in bytes. What a service takes is less, and is declared by its provider.
pub const MAX_BUILT: usize = 512 * 1024;
/// Steps that the engine may take for one template.
const FUEL: u64 = 10_000;

/// What a template sees of the machine, under `machine`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Name of the machine and of the host.
    pub name: String,
    /// Name of the site.
    pub site: String,
    /// The image; empty when the machine names none.
    pub image: String,
    /// The provider's word for the size of the machine, where it is known.
    pub instance_type: Option<String>,
    /// Zone, where it is known.
    pub zone: Option<String>,
}

/// One of `values`.
pub enum Given {
    /// Written into the allocation or the machine: no secret.
    Plain(String),
    /// Out of a Secret.
    Secret(Secret),
}

/// Why a template can't be rendered. Holds no value, and no text of the template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the template: {what}")]
pub struct TemplateError {
    /// Line of the template, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl TemplateError {
    fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// Renders.
///
/// # Errors
/// The same template with the same values fails again.
pub fn render(source: &str, facts: &Facts, values: Vec<(String, Given)>) -> Result<Secret, TemplateError> {
    check(source, &values)?;
    let secrets = Arc::new(Secrets::default());
    let context = context(facts, values, &secrets);
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL));
    engine.set_recursion_limit(16);
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true);
    engine.set_syntax(syntax.build().map_err(failed)?);
    filters::add(&mut engine, &secrets);
    filters::print(&mut engine);
    let mut text = Bounded::default();
    let template = engine.template_from_named_str("template", source).map_err(failed)?;
    let rendered = template.render_captured_to(context, &mut text).map(drop);
    if text.full {
        return Err(too_large());
    }
    rendered.map_err(failed)?;
    let text = String::from_utf8(text.bytes).map_err(|_| TemplateError::at(1, "it made no text"))?;
    secrets.fill(&text).map_err(|error| TemplateError::at(error.line.unwrap_or(1), error.what))
}

fn too_large() -> TemplateError {
    TemplateError::at(1, format!("it makes more than {} KiB, the most first-boot data", MAX_BUILT / 1024))
}

/// Refuses what could be taken for a placeholder, and statements that keep values: without them no text grows faster
/// than the template that makes it.
fn check(source: &str, values: &[(String, Given)]) -> Result<(), TemplateError> {
    if source.len() > MAX_TEMPLATE {
        return Err(TemplateError::at(1, format!("it has more than {} KiB", MAX_TEMPLATE / 1024)));
    }
    for (number, line) in source.lines().enumerate() {
        if line.contains([FIRST, LAST]) {
            return Err(TemplateError::at(number + 1, "the characters U+FDD0 and U+FDD1 stand for no text"));
        }
    }
    for (at, _) in source.match_indices("{%") {
        let word = source[at + 2..].trim_start_matches(['-', '+']).trim_start();
        let word = word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        if matches!(word, "set" | "with") {
            let line = source[..at].matches('\n').count() + 1;
            return Err(TemplateError::at(
                line,
                format!("`{word}` is not served: write the value where it is used"),
            ));
        }
    }
    for (name, given) in values {
        if let Given::Plain(text) = given
            && text.contains([FIRST, LAST])
        {
            let what = format!(
                "values.{name} holds one of the characters U+FDD0 and U+FDD1, which stand for no text"
            );
            return Err(TemplateError::at(1, what));
        }
    }
    Ok(())
}

fn context(facts: &Facts, values: Vec<(String, Given)>, secrets: &Arc<Secrets>) -> Value {
    let mut machine =
        vec![("name", facts.name.clone()), ("site", facts.site.clone()), ("image", facts.image.clone())];
    machine.extend(facts.instance_type.clone().map(|word| ("instanceType", word)));
    machine.extend(facts.zone.clone().map(|word| ("zone", word)));
    let values: Vec<(String, Value)> = values
        .into_iter()
        .map(|(name, given)| match given {
            Given::Plain(text) => (name, Value::from(text)),
            Given::Secret(bytes) => {
                let placeholder = secrets.secret(&name, bytes);
                (name, placeholder)
            }
        })
        .collect();
    Value::from_pairs([("machine", Value::from_pairs(machine)), ("values", Value::from_pairs(values))])
}

/// The engine's error without its texts, except those that are the engine's own or this module's.
fn failed(error: minijinja::Error) -> TemplateError {
    let line = error.line().unwrap_or(1);
    let detail = error.detail().unwrap_or_default();
    let what = match error.kind() {
        ErrorKind::UndefinedError => {
            "it names something that is not there; there are machine.name, .site, .image, .instanceType and .zone where \
             they are known, and the listed values"
                .to_owned()
        }
        ErrorKind::OutOfFuel => format!("it takes more than {FUEL} steps"),
        ErrorKind::SyntaxError | ErrorKind::UnknownFilter | ErrorKind::UnknownFunction | ErrorKind::UnknownTest => {
            format!("{}: {detail}", error.kind())
        }
        // Our own filters' errors are of this kind; so are some of the engine's, which may cite values, but no secret.
        kind if detail.is_empty() => kind.to_string(),
        kind => format!("{kind}: {detail}"),
    };
    TemplateError::at(line, holdfast_api::truncate_message(&what))
}

/// Takes no more than [`MAX_BUILT`].
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for &mut Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_BUILT {
            self.full = true;
            return Err(io::Error::other("too large"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
