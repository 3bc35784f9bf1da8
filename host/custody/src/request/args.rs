//! Arguments: checked against their declared grammar and turned into the text that is written (attack 44, 45).

use crate::errors::bad_argument;
use crate::keys::sha256;
use crate::message::Refusal;
use crate::reply::types;
use holdfast_manifest::{Arg, ArgFormat, Source, Type, WriteAs};
use serde_json::Value;

/// An argument as it will be written.
#[derive(Clone)]
pub(crate) enum Filled {
    One(String),
    Many(Vec<String>),
}

impl Filled {
    pub fn one(&self) -> Option<&str> {
        match self {
            Filled::One(text) => Some(text),
            Filled::Many(_) => None,
        }
    }

    pub fn texts(&self) -> &[String] {
        match self {
            Filled::One(text) => std::slice::from_ref(text),
            Filled::Many(texts) => texts,
        }
    }
}

/// Checks and formats a whole argument that is not sealed.
pub(crate) fn fill(call: &str, name: &str, arg: &Arg, value: &Value) -> Result<Filled, Refusal> {
    let refuse = |why: &str| bad_argument(call, name, why);
    match (arg.is_list(), value) {
        (true, Value::Array(values)) => {
            if values.len() > 256 {
                return Err(refuse("has more than 256 elements"));
            }
            let texts = values.iter().map(|value| written(arg, value).map_err(|why| refuse(&why)));
            Ok(Filled::Many(texts.collect::<Result<_, _>>()?))
        }
        // The host's values are texts: a list of the operator's is written with commas, any other is a list of one.
        (true, Value::String(text)) if is_hosts(&arg.from) => {
            let split = matches!(arg.from, Source::Config(_) | Source::Binding(_));
            let parts: Vec<&str> = if split { text.split(',').map(str::trim).collect() } else { vec![text] };
            if parts.len() > 256 || parts.contains(&"") {
                return Err(refuse("must be 1 to 256 values with commas between them, none of them empty"));
            }
            let texts = parts.into_iter().map(|part| written(arg, &part.into()).map_err(|why| refuse(&why)));
            Ok(Filled::Many(texts.collect::<Result<_, _>>()?))
        }
        (true, _) => Err(refuse("must be a list")),
        (false, value) => Ok(Filled::One(written(arg, value).map_err(|why| refuse(&why))?)),
    }
}

fn is_hosts(from: &Source) -> bool {
    !matches!(from, Source::Guest | Source::Token | Source::Field { .. })
}

/// The text of one value of an argument exactly as the request carries it, format included: what ownership by
/// `creates = "args.A"` records. The error says in a few words what does not fit, without the value.
pub fn written(arg: &Arg, value: &Value) -> Result<String, String> {
    let text = plain_text(value).ok_or("must be a string, a number or a boolean")?;
    if !arg.one_of.is_empty() {
        if !arg.one_of.contains(&text) {
            return Err(format!("must be one of {}", arg.one_of.join(", ")));
        }
    } else {
        check_type(arg.ty, value, &text)?;
    }
    let text = match &arg.format {
        ArgFormat::Around(before, after) => format!("{before}{text}{after}"),
        ArgFormat::Uuid => uuid_of(&text),
        ArgFormat::Int(low, high) => int_of(&text, *low, *high).to_string(),
    };
    match arg.write_as {
        WriteAs::String => Ok(text),
        WriteAs::Int if is_int(&text) => Ok(text),
        WriteAs::Bool if matches!(text.as_str(), "true" | "false") => Ok(text),
        WriteAs::Int => Err("must be a whole number".into()),
        WriteAs::Bool => Err("must be true or false".into()),
    }
}

fn plain_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

fn check_type(ty: Type, value: &Value, text: &str) -> Result<(), String> {
    let fits = match ty {
        Type::Int => value.is_number() || (value.is_string() && is_int(text)),
        Type::Bool => value.is_boolean() || matches!(text, "true" | "false"),
        Type::Sealed => false,
        other => !value.is_boolean() && types::text_fits(other, text),
    };
    if fits { Ok(()) } else { Err(format!("is not {}", types::describe(ty))) }
}

fn is_int(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (1..=19).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

/// A token as a UUID: version 8 (RFC 9562), from its SHA-256.
fn uuid_of(token: &str) -> String {
    let hash = sha256(token.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    id[6] = (id[6] & 0x0f) | 0x80;
    id[8] = (id[8] & 0x3f) | 0x80;
    let hex = data_encoding::HEXLOWER.encode(&id);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A token as a number in a range, both ends included.
fn int_of(token: &str, low: u64, high: u64) -> u64 {
    let hash = sha256(token.as_bytes());
    let mut wide = [0; 16];
    wide.copy_from_slice(&hash[..16]);
    let span = u128::from(high.saturating_sub(low)) + 1;
    low + (u128::from_be_bytes(wide) % span) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_kit::arg;
    use holdfast_manifest::Place;
    use serde_json::json;

    #[test]
    fn the_typed_grammar_is_a_table() {
        let cases = [
            (Type::Id, json!("i-0abc"), true),
            (Type::Id, json!(42), true),
            (Type::Id, json!(".."), false),
            (Type::Id, json!("a/b"), false),
            (Type::Id, json!("a\r\nb"), false),
            (Type::Id, json!(null), false),
            (Type::Path, json!("a/b"), true),
            (Type::Path, json!("a//b"), false),
            (Type::Path, json!("a/../b"), false),
            (Type::Path, json!("a/%2e%2e"), false),
            (Type::Int, json!(-3), true),
            (Type::Int, json!("12"), true),
            (Type::Int, json!(1.5), false),
            (Type::Bool, json!(true), true),
            (Type::Bool, json!("yes"), false),
            (Type::Ip, json!("10.0.0.1"), true),
            (Type::Ip, json!("0x7f.1"), false),
            (Type::Text(5), json!("abcde"), true),
            (Type::Text(5), json!("abcdef"), false),
            (Type::Text(5), json!("a\u{0}"), false),
            (Type::Sealed, json!("hs1.abc"), false),
            (Type::Id, json!({"a": 1}), false),
        ];
        for (ty, value, fits) in cases {
            assert_eq!(written(&arg(ty, Source::Guest), &value).is_ok(), fits, "{ty:?} {value}");
        }
    }

    #[test]
    fn a_hosts_text_in_a_list_place_is_split_where_the_operator_wrote_it() {
        let list = |from: Source, value: Value| {
            let mut arg = arg(Type::Id, from);
            arg.at = vec![Place::Form("Zone.*".into())];
            fill("call", "zones", &arg, &value).map(|filled| filled.texts().to_vec()).ok()
        };
        let key = || "zones".to_owned();
        let cases = [
            (Source::Config(key()), json!("a, b ,c"), Some(vec!["a", "b", "c"])),
            (Source::Binding(key()), json!("a,b"), Some(vec!["a", "b"])),
            (Source::Config(key()), json!("a"), Some(vec!["a"])),
            (Source::Config(key()), json!(["a", "b"]), Some(vec!["a", "b"])),
            (Source::Config(key()), json!("a,"), None),
            (Source::Config(key()), json!(" "), None),
            (Source::Config(key()), json!("a,b c"), None),
            // A comma is a letter of an id where nobody said that it separates.
            (Source::OfferingZone, json!("eu-1,a"), Some(vec!["eu-1,a"])),
            (Source::HostName, json!("web-1"), Some(vec!["web-1"])),
            (Source::HostImage, json!("ami-1"), Some(vec!["ami-1"])),
            (Source::Guest, json!("a,b"), None),
        ];
        for (from, value, expected) in cases {
            let expected = expected.map(|list| list.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(list(from.clone(), value.clone()), expected, "{from:?} {value}");
        }
    }

    #[test]
    fn tokens_take_declared_formats_and_stay_the_same() {
        let mut token = arg(Type::Id, Source::Token);
        token.format = ArgFormat::Uuid;
        let uuid = written(&token, &json!("hfabc")).unwrap();
        assert_eq!(uuid, written(&token, &json!("hfabc")).unwrap());
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "8"));
        token.format = ArgFormat::Int(1_000_000, 1_000_009);
        let number: u64 = written(&token, &json!("hfabc")).unwrap().parse().unwrap();
        assert!((1_000_000..=1_000_009).contains(&number));
        token.format = ArgFormat::Int(0, u64::MAX);
        assert!(written(&token, &json!("hfabc")).is_ok());
        token.format = ArgFormat::Around("hf-".into(), "!".into());
        assert_eq!(written(&token, &json!("x")).unwrap(), "hf-x!");
    }
}
