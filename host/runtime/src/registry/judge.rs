//! May this module serve under this policy?

use super::policy::ProviderPolicy;
use crate::module::Module;

pub(super) enum Verdict {
    Serve,
    /// The operator has to approve the call set first.
    Pending {
        reason: String,
        add_line: String,
    },
    Refused(String),
}

pub(super) fn judge(module: &Module, policy: Option<&ProviderPolicy>) -> Verdict {
    let (name, digest, calls) = (module.name(), module.digest(), &module.manifest().call_set);
    let Some(policy) = policy else {
        return Verdict::Pending {
            reason: format!(
                "no [[provider]] named \"{name}\" approves it; add the lines shown and bind its endpoints"
            ),
            add_line: add_line(module),
        };
    };
    if let Some(pin) = policy.sha256.as_ref().filter(|pin| !pin.eq_ignore_ascii_case(digest)) {
        return Verdict::Refused(format!(
            "the configuration pins another file; to run this one write sha256 = \"{digest}\" instead of \"{pin}\" \
             under [[provider]] name = \"{name}\""
        ));
    }
    match &policy.calls {
        Some(approved) if approved.eq_ignore_ascii_case(calls) => Verdict::Serve,
        Some(_) => Verdict::Pending {
            reason: format!(
                "its call set is not the approved one; read what it means and write calls = \"{calls}\" under \
                 [[provider]] name = \"{name}\""
            ),
            add_line: add_line(module),
        },
        None => Verdict::Pending {
            reason: format!(
                "its call set is not approved; read what it means and write calls = \"{calls}\" under [[provider]] \
                 name = \"{name}\""
            ),
            add_line: add_line(module),
        },
    }
}

fn add_line(module: &Module) -> String {
    format!(
        "[[provider]]\nname = \"{}\"\nsha256 = \"{}\"\ncalls = \"{}\"\n",
        module.name(),
        module.digest(),
        module.manifest().call_set
    )
}
