//! A recorded reply, judged as a live one would be: for authors who must find out why a reply does not fit.
//!
//! Nothing is sent and no secret takes part. Sealed fields are shown as such, captured ones by name only.

use crate::reply::capture::capture;
use crate::reply::document::parse_as;
use crate::reply::project::{Source, body_is_optional, project};
use crate::reply::verdict::{error_word, of_status, unfit, unfit_body, unfit_whole};
use crate::{Refusal, Reply, Verdict};
use holdfast_manifest::{Manifest, ReplyKind};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;

/// What came of it. `Display` is for the author's terminal: the author has the reply at hand.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    pub verdict: Verdict,
    /// Names of captures that the reply lacks.
    pub missing_captures: Vec<String>,
}

impl Tried {
    /// Would the guest have been given the fields?
    pub fn fits(&self) -> bool {
        matches!(self.verdict, Verdict::Fits(_))
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = |f: &mut fmt::Formatter<'_>, what: &str, refusal: &Refusal| {
            write!(f, "{what}: {} ({}): {}", refusal.code, refusal.reason, refusal.message)?;
            refusal.native.iter().try_for_each(|word| write!(f, "; the service's word is {word}"))
        };
        match &self.verdict {
            Verdict::Fits(reply) => {
                write!(
                    f,
                    "fits; status {}; the guest is given {:#}",
                    reply.status,
                    serde_json::json!(reply.fields)
                )
            }
            Verdict::Gone { status } => write!(f, "not there (gone), status {status}"),
            Verdict::Rejected(refusal) => refused(f, "nothing happened", refusal),
            Verdict::Unclear(refusal) => refused(f, "unclear: a mutation stays in doubt", refusal),
        }
    }
}

/// Judges a reply to a declared call.
///
/// # Errors
/// One sentence, where there is no such call or a header is none.
pub fn try_reply(
    manifest: &Manifest,
    call: &str,
    status: u16,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Tried, String> {
    let call = manifest.calls.get(call).ok_or_else(|| format!("the manifest declares no call {call}"))?;
    let endpoint = manifest
        .endpoints
        .get(&call.endpoint)
        .ok_or_else(|| format!("the manifest declares no endpoint {}", call.endpoint))?;
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value).ok());
        let (name, value) = header.ok_or_else(|| format!("{name} with its value is no header"))?;
        map.append(name, value);
    }
    let kind = error_kind(call.reply, status, body);
    let doc = parse_as(kind, body, &endpoint.xmlns);
    let source = Source { headers: &map, body: doc.as_ref() };
    let missing_captures = capture(&call.captures, &source).missing;
    let word = error_word(endpoint, &source);
    let verdict = if let Some(verdict) = of_status(call, endpoint, status, word.as_deref(), &map) {
        verdict
    } else if call.reply != ReplyKind::None
        && doc.is_none()
        && !(body.is_empty() && body_is_optional(&call.fields))
    {
        unfit_whole(call, unfit_body(call.reply, true))
    } else {
        let seal = |_: &str, _: Option<&str>, _: &str| Some("(sealed)".to_owned());
        match project(&call.fields, &source, &seal, true) {
            Ok(fields) => Verdict::Fits(Reply { status, fields }),
            Err(misfit) => unfit(call, &misfit),
        }
    };
    Ok(Tried { verdict, missing_captures })
}

/// The kind of a recorded body: the call's own, or what an answer outside plain success looks like.
fn error_kind(reply: ReplyKind, status: u16, body: &[u8]) -> ReplyKind {
    match body.trim_ascii_start().first() {
        _ if (200..300).contains(&status) && reply != ReplyKind::None => reply,
        Some(b'<') => ReplyKind::Xml,
        _ => ReplyKind::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redfish() -> Manifest {
        Manifest::parse(include_str!("../../manifest/examples/redfish.toml")).unwrap()
    }

    #[test]
    fn a_recorded_reply_that_fits_shows_its_fields_and_hides_sealed_ones() {
        let body = br##"{"PowerState": "On", "Actions": {"#ComputerSystem.Reset":
            {"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}}}"##;
        let tried = try_reply(&redfish(), "system", 200, &[], body).unwrap();
        assert!(tried.fits());
        assert!(tried.to_string().contains("\"On\"") && tried.to_string().contains("(sealed)"));
    }

    #[test]
    fn recorded_xml_is_judged_by_the_same_rules() {
        let ec2 = Manifest::parse(include_str!("../../manifest/tests/manifests/ec2.toml")).unwrap();
        let body = b"<RebootInstancesResponse><return>true</return></RebootInstancesResponse>";
        assert!(try_reply(&ec2, "reboot", 200, &[], body).unwrap().to_string().contains("\"done\": true"));
        let error =
            b"<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code></Error></Errors></Response>";
        let gone = try_reply(&ec2, "instance", 400, &[], error).unwrap();
        assert_eq!(gone.verdict, Verdict::Gone { status: 400 });
        let two =
            b"<RebootInstancesResponse><return>true</return><return>false</return></RebootInstancesResponse>";
        let tried = try_reply(&ec2, "reboot", 200, &[], two).unwrap().to_string();
        assert!(tried.contains("several elements where one is declared"), "{tried}");
        let typed = b"<!DOCTYPE x><RebootInstancesResponse><return>true</return></RebootInstancesResponse>";
        let tried = try_reply(&ec2, "reboot", 200, &[], typed).unwrap().to_string();
        assert!(tried.contains("not one XML document of plain elements"), "{tried}");
    }

    #[test]
    fn a_misfit_names_the_field_and_its_kind() {
        let tried = try_reply(&redfish(), "system", 200, &[], br#"{"PowerState": 7}"#).unwrap();
        assert!(!tried.fits());
        assert!(tried.to_string().contains("power"), "{tried}");
    }
}
