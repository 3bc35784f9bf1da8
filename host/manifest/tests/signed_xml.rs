//! Signed endpoints and XML replies: the whole EC2 manifest, and each rule with a manifest that breaks exactly this.

mod common;

use common::{load, refused};
use holdfast_manifest::*;

const EC2: &str = include_str!("manifests/ec2.toml");

fn with(old: &str, new: &str) -> String {
    assert!(EC2.contains(old), "the manifest has no `{old}`");
    EC2.replacen(old, new, 1)
}

#[test]
fn the_ec2_manifest_loads_needs_no_grant_and_survives_the_way_through_json() {
    let m = load(EC2);
    assert_eq!(m.needs_grants(), []);
    let again: Manifest = serde_json::from_str(&serde_json::to_string(&m).unwrap()).unwrap();
    assert_eq!(m, again);
    let Auth::Sigv4(signed) = &m.endpoints["ec2"].auth["default"] else { panic!("not signed") };
    assert_eq!((signed.service.as_str(), &signed.region), ("ec2", &Region::Binding("region".into())));
    assert_eq!(signed.session.as_deref(), Some("session-token"));
    let run = &m.calls["run"];
    assert!(run.args["groups"].is_list() && m.needs_credentials(run));
    assert_eq!(run.args["token"].at.len(), 3, "one token in several places of the form");
    assert_eq!(m.endpoints["ec2"].per, Per::Config("region".into()));
    let many = &m.calls["run-many"];
    assert_eq!(many.most_of(&["instances", "*", "nics", "*"].map(str::to_owned)), 16);
}

#[test]
fn meaning_says_who_signs_for_what_and_that_the_secret_stays() {
    let all = load(EC2).meaning().join("\n");
    for expected in [
        "with requests signed for service ec2 and region out of your region (SigV4). You also give: region.",
        "Credential access-key (required, may be repeated by replies; Access key id) goes to header:authorization of every call to endpoint ec2, as the name of the signer.",
        "Credential secret-key (required; Secret access key) goes into the signature of every call to endpoint ec2, and is itself never sent.",
        "Credential session-token (optional; Session token of temporary credentials) goes to header:x-amz-security-token of every call to endpoint ec2.",
        "First-boot data goes to form:UserData of call run (POST / at endpoint ec2).",
        "Call run-many may make: instance (up to 4), nic (up to 16)",
        "Call run may make: instance (POST",
        "Call terminate may DESTROY: instance of this machine or owned",
    ] {
        assert!(all.contains(expected), "missing: {expected}\nin:\n{all}");
    }
}

#[test]
fn a_changed_scope_is_a_changed_call_set_and_is_shown() {
    let base = load(EC2);
    for (old, new, shown) in [
        ("service = \"ec2\"", "service = \"iam\"", "signed for service iam"),
        ("region = \"binding:region\", id", "region = \"eu-west-1\", id", "region eu-west-1"),
    ] {
        let text = with(old, new).replace(
            "vars = [\"region\"]\n",
            if new.contains("eu-west") { "" } else { "vars = [\"region\"]\n" },
        );
        let other = load(&text);
        assert_ne!(base.call_set, other.call_set);
        let diff = other.diff(&base).join("\n");
        assert!(diff.contains("changed: Endpoint ec2") && diff.contains(shown), "{diff}");
    }
    let swapped = load(&with(
        "id = \"access-key\", secret = \"secret-key\", session = \"session-token\"",
        "id = \"access-key\", secret = \"session-token\", session = \"secret-key\"",
    ));
    assert!(
        swapped.diff(&base).join("\n").contains("changed: Credential secret-key"),
        "a secret that is now sent"
    );
    let place = load(&with(
        "xml:/RunInstancesResponse/instancesSet/item/instanceId",
        "xml:/RunInstancesResponse/reservationId",
    ));
    assert_eq!(place.diff(&base), ["changed: call run differs in fields."]);
}

#[test]
fn a_signature_is_one_of_several_ways_that_the_binding_picks() {
    let one = "auth = { sigv4 = { service = \"ec2\", region = \"binding:region\", id = \"access-key\", secret = \"secret-key\", session = \"session-token\" } }";
    let several = "auth = { own = { sigv4 = { service = \"ec2\", region = \"binding:region\", id = \"access-key\", secret = \"secret-key\", session = \"session-token\" } }, compatible = { put = { \"header:X-Key\" = \"{secret-key}\" } } }";
    let m = load(&with(one, several));
    assert!(matches!(&m.endpoints["ec2"].auth["own"], Auth::Sigv4(_)) && m.endpoints["ec2"].auth.len() == 2);
    let wrong = several.replace("binding:region", "binding:place");
    refused(&with(one, &wrong), Rule::L1, "endpoints.ec2.auth.own.sigv4.region");
}

#[test]
fn l1_a_signature_names_different_declared_keys_a_service_and_a_region() {
    let auth = "service = \"ec2\", region = \"binding:region\", id = \"access-key\", secret = \"secret-key\", session = \"session-token\"";
    for (new, rule, words) in [
        (
            "region = \"binding:region\", id = \"access-key\", secret = \"secret-key\"",
            Rule::Grammar,
            "`service` is required",
        ),
        (
            "service = \"ec2\", id = \"access-key\", secret = \"secret-key\"",
            Rule::Grammar,
            "`region` is required",
        ),
        (
            "service = \"ec2\", region = \"binding:region\", secret = \"secret-key\"",
            Rule::Grammar,
            "`id` is required",
        ),
        (
            "service = \"ec2\", region = \"binding:region\", id = \"access-key\"",
            Rule::Grammar,
            "`secret` is required",
        ),
        (&*auth.replace("\"ec2\"", "\"EC2\""), Rule::Grammar, "no service"),
        (&*auth.replace("\"ec2\"", "\"a/b\""), Rule::Grammar, "no service"),
        (&*auth.replace("\"ec2\"", "\"s3\""), Rule::NotYet, "s3"),
        (&*auth.replace("binding:region", "config:region"), Rule::Grammar, "no region"),
        (&*auth.replace("binding:region", "guest"), Rule::L1, "no argument uses the variable `region`"),
        (&*auth.replace("binding:region", "binding:place"), Rule::L1, "no variable `place`"),
        (&*auth.replace("secret-key", "access-key"), Rule::L1, "different credential keys"),
        (&*auth.replace("session-token", "secret-key"), Rule::L1, "different credential keys"),
        (
            &*auth.replace("secret-key", "secret-kye"),
            Rule::L1,
            "no credential key is named `secret-kye`; did you mean `secret-key`",
        ),
        (
            &*auth.replace(", session = \"session-token\"", ""),
            Rule::L1,
            "nothing uses the credential key `session-token`",
        ),
        (&*format!("{auth}, regoin = \"x\""), Rule::Grammar, "did you mean `region`"),
    ] {
        refused(&with(auth, new), rule, words);
    }
    refused(
        &with("{ sigv4 = {", "{ put = { \"header:x-a\" = \"{access-key}\" }, sigv4 = {"),
        Rule::Grammar,
        "unknown key `put`",
    );
    refused(
        &with("about = \"Secret access key\"", "about = \"Secret access key\", public = true"),
        Rule::L6,
        "not `public`",
    );
}

#[test]
fn l1_nobody_else_writes_what_the_signature_writes() {
    for header in ["X-Amz-Date", "x-amz-security-token", "x-amz-content-sha256"] {
        let arg = format!("[calls.instance.args.x]\nat = \"header:{header}\"\ntype = \"word\"");
        refused(&format!("{EC2}\n{arg}"), Rule::L1, "meets");
        let constant = format!("per = \"config:region\"\nheaders = {{ \"{header}\" = \"1\" }}");
        refused(&with("per = \"config:region\"", &constant), Rule::L1, "is a constant header already");
    }
}

#[test]
fn l6_a_signature_in_a_url_is_not_offered_attack_46() {
    for text in [
        with("path = \"/\"", "path = \"/?X-Amz-Expires=900\""),
        with(
            "args.ids = { at = \"form:InstanceId.*\"",
            "args.x = { at = \"query:x-amz-signature\", type = \"int\" }\nargs.ids = { at = \"form:InstanceId.*\"",
        ),
        with("Action=DescribeInstances&Version", "X-Amz-Algorithm=a&Action=DescribeInstances&Version"),
        with("into = \"form:NextToken\"", "into = \"query:X-Amz-Signature\""),
    ] {
        refused(&text, Rule::L6, "belongs to presigned URLs");
    }
}

#[test]
fn l1_a_signed_query_has_one_spelling_attack_46() {
    for query in ["a=b+c", "a=b:c", "a=%3a", "a=%4"] {
        assert!(Manifest::parse(&with("path = \"/\"", &format!("path = \"/?{query}\""))).is_err(), "{query}");
    }
    load(&with("path = \"/\"", "path = \"/?a=b%3Ac&d=~e\""));
}

#[test]
fn l7_a_session_call_is_not_signed() {
    let session = "[endpoints.old]\nabout = 'x'\nauth = { login = 'login', put = { 'header:x-s' = '{s}' }, life = '5m' }\n[calls.old]\nendpoint = 'old'\neffect = 'read'\nmethod = 'GET'\npath = '/x'\n[calls.login]\nendpoint = 'ec2'\neffect = 'session'\nmethod = 'POST'\npath = '/'\nreply = 'xml'\nbody.form = 'Action=X'\ncaptures.s = { at = 'xml:/R/s' }";
    refused(&format!("{EC2}\n{session}"), Rule::L7, "a session call is not signed");
}

#[test]
fn l1_places_are_of_the_replys_own_kind() {
    refused(&with("reply = \"xml\"\nreplay = \"token\"", "replay = \"token\""), Rule::L1, "which is json");
    refused(
        &with("next = \"xml:/DescribeInstancesResponse/nextToken\"", "next = \"json:/next\""),
        Rule::L1,
        "which is xml",
    );
    refused(&with("xml:/instanceState/name", "json:/state"), Rule::L1, "which is xml");
    refused(
        &with("reply = \"xml\"\nreplay = \"never\"", "reply = \"none\"\nreplay = \"never\""),
        Rule::L1,
        "no body to read this from",
    );
    refused(&with("form:MaxCount", "xml:/MaxCount"), Rule::Grammar, "xml places are of replies only");
    refused(&with("at = \"form:UserData\"", "at = \"xml:/UserData\""), Rule::Grammar, "a slot cannot stand");
    // An error's document may be of another kind than the replies.
    load(&with(
        "error-code = \"xml:/Response/Errors/Error/Code\"",
        "error-code = [\"xml:/Response/Errors/Error/Code\", \"json:/code\"]",
    ));
}

#[test]
fn xml_places_name_elements() {
    for good in ["/A", "/A/b-c/D_1/e.f", "/A/*/b", "/A/[k=v]/b", "/A/*/[k=v]/b"] {
        let place = Place::parse(&format!("xml:{good}")).unwrap();
        assert_eq!(place.to_string(), format!("xml:{good}"));
        assert_eq!(place.is_list(), good.contains('*'));
    }
    for bad in [
        "", "/", "A", "/*", "/A/*/*", "/[k=v]", "/A/0", "/A/@type", "/A/b c", "/A//b", "/A/a:b:c", "/A/:b",
        "/A/[=v]", "/A/é", "/A/{u}b",
    ] {
        assert!(Place::parse(&format!("xml:{bad}")).is_err(), "{bad}");
    }
}

#[test]
fn l1_prefixes_are_declared_and_declared_ones_are_used() {
    let table = "xmlns = { default = \"http://ec2.amazonaws.com/doc/2016-11-15/\" }";
    refused(
        &with("xml:/RebootInstancesResponse/return", "xml:/e:RebootInstancesResponse/return"),
        Rule::L1,
        "has the prefix `e`",
    );
    refused(
        &with("xml:/RebootInstancesResponse/return", "xml:/default:RebootInstancesResponse/return"),
        Rule::L1,
        "has the prefix `default`",
    );
    refused(
        &with(table, "xmlns = { default = \"urn:a\", unused = \"urn:b\" }"),
        Rule::L1,
        "no xml place uses the namespace `unused`",
    );
    refused(&with(table, "xmlns = { default = \"urn:a\", b = \"urn:a\" }"), Rule::L1, "two prefixes");
    refused(&with(table, "xmlns = { default = \"\" }"), Rule::Grammar, "a namespace is a URI");
    let prefixed = with(table, "xmlns = { default = \"urn:a\", e = \"urn:e\" }");
    load(&prefixed.replace("xml:/RebootInstancesResponse/return", "xml:/e:RebootInstancesResponse/e:return"));
    load(&with(table, ""));
}

#[test]
fn l9_no_field_reads_first_boot_data_out_of_xml_hole_h6() {
    for at in [
        "/R/userData/value",
        "/R/item/*/UserData",
        "/R/passwordData",
        "/R/output",
        "/R/tagSet/item/[key=password]/value",
        "/R/secretAccessKey",
        "/R/sessionToken",
    ] {
        let text = with(
            "xml:/RebootInstancesResponse/return\", type = \"bool\"",
            &format!("xml:{at}\", type = \"word\""),
        );
        refused(&text, Rule::L9, "");
    }
    let prefixed = with(
        "xmlns = { default = \"http://ec2.amazonaws.com/doc/2016-11-15/\" }",
        "xmlns = { e = \"urn:e\", default = \"urn:d\" }",
    );
    refused(
        &prefixed.replace("xml:/RebootInstancesResponse/return", "xml:/R/e:userData"),
        Rule::L9,
        "userData",
    );
    let inside = with(
        "state = { at = \"xml:/instanceState/name\", type = \"word\" }\nvolumes",
        "state = { at = \"xml:/userData/value\", type = \"word\" }\nvolumes",
    );
    refused(&inside, Rule::L9, "userData");
    // Asking for it by Action or Attribute needs the operator's word.
    for action in ["GetConsoleOutput", "GetPasswordData"] {
        let text = with(
            "Action=DescribeInstances&Version=2016-11-15\"\ngone",
            &format!("Action={action}&Version=2016-11-15\"\ngone"),
        );
        assert!(
            load(&text).needs_grants().iter().any(|grant| grant.call == "instance" && grant.rule == Rule::L9),
            "{action}"
        );
    }
    let attribute = with(
        "Action=DescribeInstances&Version=2016-11-15\"\ngone",
        "Action=DescribeInstanceAttribute&Attribute=userData&Version=2016-11-15\"\ngone",
    );
    assert!(load(&attribute).needs_grants().iter().any(|grant| grant.rule == Rule::L9));
}

#[test]
fn l4_the_guest_chooses_nothing_beside_first_boot_data_hole_h2() {
    refused(
        &with("from = \"config:subnet\", type = \"id\"", "type = \"id\""),
        Rule::L4,
        "int, bool, one-of or has `on`",
    );
    refused(
        &with("from = \"config:security-groups\", type = \"id\"", "type = \"id\""),
        Rule::L4,
        "int, bool, one-of or has `on`",
    );
    // The account and region of a signed call are nobody's argument.
    refused(
        &with("region = \"binding:region\", id", "region = \"offering.zone\", id"),
        Rule::Grammar,
        "no region",
    );
}

#[test]
fn l3_targets_in_form_lists_have_on_hole_h4() {
    refused(
        &with(
            "args.ids = { at = \"form:InstanceId.*\", type = \"id\", on = \"instance\" }\n[calls.terminate.fields",
            "args.ids = { at = \"form:InstanceId.*\", type = \"id\" }\n[calls.terminate.fields",
        ),
        Rule::L3,
        "a destroy needs a mandatory argument with `on`",
    );
}

#[test]
fn l1_a_list_in_a_form_is_disjoint_from_what_the_skeleton_says() {
    refused(
        &with("MinCount=1&MaxCount=1", "MinCount=1&MaxCount=1&SecurityGroupId.1=sg-1"),
        Rule::L1,
        "stands in the skeleton already",
    );
    refused(
        &with(
            "image = { at = \"form:ImageId\"",
            "extra = { at = \"form:SecurityGroupId.2\", from = \"config:more\" }\nimage = { at = \"form:ImageId\"",
        ),
        Rule::L1,
        "meets",
    );
}

#[test]
fn h3_instances_of_one_create_each_bear_its_token() {
    let token = "token = { at = \"xml:/tagSet/item/[key=holdfast]/value\", type = \"word\" }\nstate = { at = \"xml:/instanceState/name\", type = \"word\" }\nnics";
    refused(
        &with(token, &token.replace("token = {", "tag = {")),
        Rule::L3,
        "an item must show that this create made it",
    );
    refused(
        &with("networkInterfaceId\", type = \"id\", max-items = 4", "networkInterfaceId\", type = \"id\""),
        Rule::L3,
        "may lead to 64",
    );
    refused(&with("max-items = 4\n", "max-items = 100\n"), Rule::L3, "at most 64 elements");
}

#[test]
fn l10_what_lists_everything_of_ours_says_what_is_whose() {
    let adopts = "adopts = { instance = { field = \"instances/*/id\", proof = \"instances/*/token\" } }\n";
    refused(&with(adopts, ""), Rule::L10, "which field is the id of what");
    let id = "id = { at = \"xml:/instanceId\", type = \"id\" }\ntoken = { at = \"xml:/tagSet/item/[key=holdfast]/value\", type = \"word\", optional = true }";
    refused(&with(id, &id.replacen(" }", ", optional = true }", 1)), Rule::L10, "has a mandatory id");
    // A proof may be absent: such an item is somebody else's. It must be declared all the same.
    refused(
        &with(&format!("{adopts}[calls.list"), &format!("{}[calls.list", adopts.replace("*/token", "*/id2"))),
        Rule::L1,
        "no scalar field",
    );
    refused(&with("Filter.1.Name=tag-key&Filter.1.Value.1=holdfast&", "").replace("[calls.list-owned.fields.instances]", "[calls.list-owned.args]\ntag = { at = \"form:Filter.1.Name\", type = \"word\" }\n[calls.list-owned.fields.instances]"), Rule::L10, "cannot know its argument `tag`");
}

#[test]
fn no_truncation_or_mutation_of_a_signed_manifest_makes_the_parser_panic() {
    let bytes = EC2.as_bytes();
    for end in (0..bytes.len()).step_by(31) {
        let _ = Manifest::parse(&String::from_utf8_lossy(&bytes[..end]));
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |bound: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % bound
    };
    for _ in 0..300 {
        let mut copy = bytes.to_vec();
        let at = next(copy.len());
        copy[at] = b"{}[]=\"'*~/.:\\\n-0aZ,"[next(19)];
        if let Err(errors) = Manifest::parse(&String::from_utf8_lossy(&copy)) {
            assert!(!errors.0.is_empty());
        }
    }
}
