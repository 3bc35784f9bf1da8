//! A signed service that speaks XML, over real TLS: the EC2 manifest, what it sends and what it takes for an answer.

use super::*;
use data_encoding::HEXLOWER;
use ring::{digest, hmac};

const EC2: &str = include_str!("../../../manifest/tests/manifests/ec2.toml");
const ID: &str = "AKIDEXAMPLE00000001";
const KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SESSION: &str = "IQoJb3JpZ2luX2VjEJr//////////wEaCWV1LXdlc3QtMSJ+session==";
const OWN: &str = "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"";

fn xml(status: u16, body: impl AsRef<str>) -> Says {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", body.as_ref());
    Says::with(status, "content-type: text/xml;charset=UTF-8\r\n", &body)
}

fn error(status: u16, code: &str) -> Says {
    xml(
        status,
        format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>m</Message></Error></Errors><RequestID>r</RequestID></Response>"
        ),
    )
}

fn ran(inner: &str) -> Says {
    xml(
        200,
        format!("<RunInstancesResponse {OWN}><instancesSet>{inner}</instancesSet></RunInstancesResponse>"),
    )
}

/// Regions `eu-west-1` and `us-east-2`, both served by one service.
async fn world(session: bool, answer: impl Fn(&Heard) -> Says + Send + Sync + 'static) -> World {
    let service = Service::start(answer).await;
    let custody = Custody::new(Options::default()).unwrap();
    let revision = Revision("ec2@1".into());
    let bindings = ["eu-west-1", "us-east-2"].map(|region| {
        let mut binding = service.binding("ec2");
        binding.value = Some(region.into());
        binding.vars.insert("region".into(), region.into());
        binding
    });
    let grants = Grants { bindings: bindings.into(), calls: names(&[]) };
    custody.register(revision.clone(), manifest(EC2), grants).unwrap();
    let credentials = custody.deposit_credentials(keys(&revision, ID, session)).unwrap();
    World { custody, service, credentials, revision }
}

fn keys(revision: &Revision, id: &str, session: bool) -> CredentialDeposit {
    let mut values = vec![("access-key", id), ("secret-key", KEY)];
    values.extend(session.then_some(("session-token", SESSION)));
    let values = values.into_iter().map(|(key, value)| (key.to_owned(), SecretBytes::from(value.to_owned())));
    CredentialDeposit {
        revision: revision.clone(),
        name: "aws".into(),
        account: "uid-1".into(),
        values: values.collect(),
    }
}

fn exchange(world: &World, region: &str, call: &str, args: Value) -> Exchange {
    let mut exchange = world.exchange(call, args);
    exchange.selector = Selector::Value { site: "lab".into(), value: region.into() };
    exchange.scope.provider = "ec2".into();
    exchange
}

fn run_args() -> Value {
    json!({
        "token": "hfabc", "name": "web-1.lab", "image": "ami-1", "type": "m7i.large", "zone": "eu-west-1a",
        "subnet": "subnet-1", "groups": "sg-1, sg-2 ,sg-3",
    })
}

fn run(world: &World, region: &str) -> Exchange {
    let mut exchange = exchange(world, region, "run", run_args());
    let data = SecretBytes::from(DATA.to_owned());
    let id = world.custody.deposit_user_data(&world.revision, "web-1", data).unwrap();
    exchange.user_data.insert("user-data".into(), id);
    exchange
}

async fn call(world: &World, name: &str, args: Value) -> Answer {
    world.send(exchange(world, "eu-west-1", name, args)).await
}

fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Verifies a request as the service would: from the bytes that came, and by nothing that custody says.
fn verify(heard: &Heard, region: &str) -> Vec<String> {
    let authorization = heard.header("authorization").unwrap();
    let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 Credential=").unwrap();
    let (credential, rest) = rest.split_once(", SignedHeaders=").unwrap();
    let (names, signature) = rest.split_once(", Signature=").unwrap();
    let date = heard.header("x-amz-date").unwrap();
    let scope = format!("{}/{region}/ec2/aws4_request", &date[..8]);
    assert_eq!(credential, format!("{ID}/{scope}"));
    let headers: String =
        names.split(';').map(|name| format!("{name}:{}\n", heard.header(name).unwrap().trim())).collect();
    assert_eq!(heard.target, "/");
    let canonical = format!("{}\n/\n\n{headers}\n{names}\n{}", heard.method, hash(&heard.body));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hash(canonical.as_bytes()));
    let mut key = format!("AWS4{KEY}").into_bytes();
    for part in scope.split('/').chain([text.as_str()]) {
        let step = hmac::Key::new(hmac::HMAC_SHA256, &key);
        key = hmac::sign(&step, part.as_bytes()).as_ref().to_vec();
    }
    assert_eq!(signature, HEXLOWER.encode(&key));
    names.split(';').map(str::to_owned).collect()
}

fn form(heard: &Heard) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(&heard.body).into_owned().collect()
}

#[tokio::test]
async fn what_is_sent_is_what_is_signed_for_the_bindings_region_attack_46() {
    for session in [true, false] {
        let world = world(session, |_| ran("<item><instanceId>i-1</instanceId></item>")).await;
        for region in ["eu-west-1", "us-east-2"] {
            let answer = world.send(run(&world, region)).await;
            assert_eq!(fields(&answer), json!({"id": "i-1"}));
            assert_eq!(answer.binding, format!("ec2/lab/{region}"));
            let heard = world.service.heard().pop().unwrap();
            let names = verify(&heard, region);
            for name in ["host", "x-amz-date", "content-type"] {
                assert!(names.contains(&name.to_owned()), "{name} is signed: {names:?}");
            }
            assert_eq!(names.contains(&"x-amz-security-token".to_owned()), session);
            assert_eq!(heard.header("x-amz-security-token"), session.then_some(SESSION));
            assert_eq!(heard.header("content-type"), Some("application/x-www-form-urlencoded"));
        }
        for heard in world.service.heard() {
            assert!(!heard.head.contains(KEY) && !heard.text().contains(KEY), "the key itself is never sent");
        }
        let evidence = world.custody.evidence();
        let spliced = |key: &str| evidence.iter().find(|e| e.secret.contains(key)).map(|e| e.spliced);
        assert_eq!(spliced("secret-key"), Some(0), "{evidence:?}");
    }
}

#[tokio::test]
async fn every_kind_of_host_value_fills_its_places_of_the_form() {
    let world = world(true, |_| ran("<item><instanceId>i-1</instanceId></item>")).await;
    fields(&world.send(run(&world, "eu-west-1")).await);
    let heard = world.service.heard().pop().unwrap();
    let form = form(&heard);
    for (key, value) in [
        ("Action", "RunInstances"),
        ("ClientToken", "hfabc"),
        ("TagSpecification.1.Tag.1.Value", "hfabc"),
        ("TagSpecification.2.Tag.1.Value", "hfabc"),
        ("TagSpecification.1.Tag.2.Value", "web-1.lab"),
        ("ImageId", "ami-1"),
        ("InstanceType", "m7i.large"),
        ("Placement.AvailabilityZone", "eu-west-1a"),
        ("SubnetId", "subnet-1"),
        ("SecurityGroupId.1", "sg-1"),
        ("SecurityGroupId.2", "sg-2"),
        ("SecurityGroupId.3", "sg-3"),
    ] {
        assert_eq!(form.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert_eq!(form.len(), 22, "{form:?}");
    let data = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &form["UserData"]).unwrap();
    assert_eq!(data, DATA.as_bytes());
}

#[tokio::test]
async fn a_list_of_the_operator_is_split_at_commas_and_typed_value_by_value() {
    let world = world(true, |_| ran("<item><instanceId>i-1</instanceId></item>")).await;
    for (groups, fits) in [
        (json!("sg-1"), true),
        (json!(["sg-1", "sg-2"]), true),
        (json!(""), false),
        (json!("sg-1,"), false),
        (json!("sg-1,,sg-2"), false),
        (json!("sg-1, sg 2"), false),
        (json!("sg-1&Action=TerminateInstances"), false),
        (json!(vec!["sg-1"; 257].join(",")), false),
    ] {
        let mut exchange = run(&world, "eu-west-1");
        exchange.args.insert("groups".into(), groups.clone());
        assert_eq!(world.custody.prepare(exchange).is_ok(), fits, "{groups}");
    }
    // A guest's list is a list.
    let text = exchange(&world, "eu-west-1", "terminate", json!({"ids": "i-1,i-2"}));
    assert!(world.custody.prepare(text).is_err());
    let list = exchange(&world, "eu-west-1", "terminate", json!({"ids": ["i-1", "i-2"]}));
    assert!(world.custody.prepare(list).is_ok());
}

#[tokio::test]
async fn pages_of_xml_are_signed_one_by_one_and_make_one_list() {
    let item = |id: &str| {
        format!(
            "<item><instanceId>{id}</instanceId><instanceState><name>running</name></instanceState><tagSet><item><key>Name</key>\
             <value>x</value></item><item><key>holdfast</key><value>hfabc</value></item></tagSet></item>"
        )
    };
    let world = world(true, move |heard| {
        let (set, next) = match form(heard).get("NextToken").map(String::as_str) {
            None => (format!("<item><instancesSet>{}{}</instancesSet></item>", item("i-1"), item("i-2")), "<nextToken>p+2/=</nextToken>"),
            Some("p+2/=") => (format!("<item><instancesSet>{}</instancesSet></item>", item("i-3")), "<nextToken>p3</nextToken>"),
            _ => (String::new(), "<nextToken/>"),
        };
        xml(200, format!("<DescribeInstancesResponse {OWN}>\n  <reservationSet>\n{set}</reservationSet>{next}</DescribeInstancesResponse>"))
    })
    .await;
    let listed = fields(&call(&world, "find", json!({"token": "hfabc"})).await);
    let one = |id: &str| json!({"id": id, "token": "hfabc", "state": "running"});
    assert_eq!(listed, json!({"instances": [one("i-1"), one("i-2"), one("i-3")]}));
    assert_eq!(world.service.heard().len(), 3);
    world.service.heard().iter().for_each(|heard| drop(verify(heard, "eu-west-1")));
}

#[tokio::test]
async fn a_page_that_names_two_next_ones_fails_the_list() {
    let world = world(true, |_| {
        xml(200, format!("<DescribeInstancesResponse {OWN}><reservationSet/><nextToken/><nextToken>b</nextToken></DescribeInstancesResponse>"))
    })
    .await;
    let answer = call(&world, "find", json!({"token": "hfabc"})).await;
    assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit", "no half list");
}

#[tokio::test]
async fn error_documents_are_read_by_their_code_outside_plain_success() {
    let cases = [
        (400, "InvalidInstanceID.NotFound", "gone", ""),
        (500, "InsufficientInstanceCapacity", "rejected", "capacity-exhausted"),
        (403, "UnauthorizedOperation", "rejected", "permission-denied"),
        (401, "AuthFailure", "rejected", "unauthenticated"),
        (400, "RequestExpired", "rejected", "unavailable"),
        (503, "RequestLimitExceeded", "rejected", "throttled"),
        (500, "InternalError", "unclear", "unavailable"),
        (400, "Never heard of it", "rejected", "invalid-input"),
    ];
    for (status, code, kind, expected) in cases {
        let world = world(true, move |_| error(status, code)).await;
        let answer = call(&world, "terminate", json!({"ids": ["i-1"]})).await;
        let (got, refused) = match &answer.verdict {
            Verdict::Fits(_) => ("fits", ""),
            Verdict::Gone { .. } => ("gone", ""),
            Verdict::Rejected(refused) => ("rejected", refused.code.as_str()),
            Verdict::Unclear(refused) => ("unclear", refused.code.as_str()),
        };
        assert_eq!((got, refused), (kind, expected), "{status} {code}");
    }
    let doubled = "<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code></Error><Error><Code>Blocked</Code></Error></Errors></Response>";
    let world = world(true, move |_| xml(400, doubled)).await;
    let answer = call(&world, "terminate", json!({"ids": ["i-1"]})).await;
    assert!(matches!(answer.verdict, Verdict::Rejected(_)), "two codes are none: {answer:?}");
}

/// Field case K01.
#[tokio::test]
async fn a_clock_that_is_wrong_is_told_from_a_wrong_key() {
    let far = "Fri, 02 Jan 1998 03:04:05 GMT";
    let world = world(true, move |_| {
        Says::with(
            403,
            &format!("content-type: text/xml\r\ndate: {far}\r\n"),
            "<Response><Errors><Error><Code>SignatureDoesNotMatch</Code></Error></Errors></Response>",
        )
    })
    .await;
    let answer = call(&world, "terminate", json!({"ids": ["i-1"]})).await;
    let Verdict::Rejected(refused) = &answer.verdict else { panic!("{answer:?}") };
    assert_eq!((refused.code.as_str(), refused.reason.as_str()), ("unavailable", "ClockSkew"));
    assert!(refused.message.contains("set this host's clock"), "{}", refused.message);
    // The next signature is still of this host's own time.
    call(&world, "terminate", json!({"ids": ["i-1"]})).await;
    let year = jiff::Timestamp::now().strftime("%Y").to_string();
    assert!(world.service.heard().iter().all(|heard| heard.header("x-amz-date").unwrap().starts_with(&year)));
}

#[tokio::test]
async fn an_unfit_answer_to_a_signed_mutation_is_in_doubt_hole_h5() {
    let good = format!(
        "<RunInstancesResponse {OWN}><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></RunInstancesResponse>"
    );
    let cases: Vec<(&str, Says)> = vec![
        ("empty", Says::with(200, "content-type: text/xml\r\n", "")),
        ("no root", xml(200, "")),
        ("json", Says::json(200, r#"{"instanceId": "i-1"}"#)),
        ("untyped", Says::with(200, "", &good)),
        ("html", Says::with(200, "content-type: text/html\r\n", &good)),
        ("latin-1", Says::with(200, "content-type: text/xml; charset=iso-8859-1\r\n", &good)),
        ("a document type", Says::with(200, "content-type: text/xml\r\n", &format!("<!DOCTYPE x>{good}"))),
        ("an entity", ran("<item><instanceId>&x;</instanceId></item>")),
        (
            "two instances",
            ran("<item><instanceId>i-1</instanceId></item><item><instanceId>i-2</instanceId></item>"),
        ),
        ("none", ran("")),
        ("an error's document", xml(200, "<Response><Errors/></Response>")),
        ("another namespace", xml(200, good.replace(OWN, "xmlns=\"urn:evil\""))),
        ("cut off", xml(200, &good[..good.len() - 5])),
    ];
    for (name, says) in cases {
        let Says::Bytes(bytes) = says else { continue };
        let world = world(true, move |_| Says::Bytes(bytes.clone())).await;
        let answer = world.send(run(&world, "eu-west-1")).await;
        let doubt =
            matches!(&answer.verdict, Verdict::Unclear(refused) if refused.reason == "ReplyDoesNotFit");
        assert!(doubt, "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn secrets_in_xml_are_found_decoded_attacks_9_and_13() {
    let hidden: String = KEY.chars().map(|c| format!("&#{};", c as u32)).collect();
    let cdata = format!("<![CDATA[{}]]>{}", &KEY[..10], &KEY[10..]);
    for echo in [KEY.to_owned(), hidden, cdata, SESSION.to_owned()] {
        // The widest type that a field may have.
        let text = EC2.replace(
            "state = { at = \"xml:/DescribeInstancesResponse/reservationSet/item/instancesSet/item/instanceState/name\", type = \"word\" }",
            "state = { at = \"xml:/R/note\", type = \"text:300\" }",
        );
        let text = text.replace("zone = { at = \"xml:/DescribeInstancesResponse/reservationSet/item/instancesSet/item/placement/availabilityZone\", type = \"word\" }\n", "");
        let body = format!("<R><note>{echo}</note></R>");
        let world = world(true, move |_| xml(200, &body)).await;
        let grants = Grants {
            bindings: [("eu-west-1", world.service.binding("ec2"))]
                .map(|(region, mut binding)| {
                    binding.value = Some(region.into());
                    binding.vars.insert("region".into(), region.into());
                    binding
                })
                .into(),
            calls: names(&[]),
        };
        world.custody.register(world.revision.clone(), manifest(&text), grants).unwrap();
        let answer = call(&world, "instance", json!({"id": "i-1"})).await;
        assert_eq!(refusal(&answer.verdict).reason, "ReplyDoesNotFit", "{answer:?}");
        assert_eq!(world.caught(), 1);
    }
}

#[tokio::test]
async fn what_a_create_lists_is_its_own_or_in_doubt_hole_h3() {
    let item = |id: &str, token: &str| {
        format!(
            "<item><instanceId>{id}</instanceId><instanceState><name>pending</name></instanceState><tagSet><item><key>holdfast</key>\
             <value>{token}</value></item></tagSet><networkInterfaceSet><item><networkInterfaceId>eni-{id}</networkInterfaceId></item>\
             </networkInterfaceSet></item>"
        )
    };
    let many = |n: usize| (0..n).map(|i| item(&format!("i-{i}"), "hfabc")).collect::<String>();
    let cases = [
        ("its own", many(2), true),
        ("as many as are declared", many(4), true),
        ("none", String::new(), true),
        ("more than are declared", many(5), false),
        ("a neighbour", format!("{}{}", item("i-1", "hfabc"), item("i-9", "hfother")), false),
        ("one without a token", many(1).replace("holdfast", "other"), false),
    ];
    for (name, items, fits) in cases {
        let world = world(true, move |_| ran(&items)).await;
        let args = json!({"token": "hfabc", "count": 2, "image": "ami-1", "type": "m7i.large"});
        let answer = call(&world, "run-many", args).await;
        match &answer.verdict {
            Verdict::Fits(_) if fits => {}
            Verdict::Unclear(refused) if !fits => assert_eq!(refused.reason, "ReplyDoesNotFit", "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_region_is_the_bindings_and_looks_like_one() {
    let world = world(true, |_| error(400, "X")).await;
    for region in [Some("EU-West-1"), Some("eu/west"), Some(""), None] {
        let mut binding = world.service.binding("ec2");
        binding.value = Some("eu-west-1".into());
        if let Some(region) = region {
            binding.vars.insert("region".into(), region.into());
        }
        let grants = Grants { bindings: vec![binding], calls: names(&[]) };
        let refused = world.custody.register(Revision("ec2@2".into()), manifest(EC2), grants).unwrap_err();
        assert!(refused.to_string().contains("vars.region"), "{refused}");
    }
    // A region that no binding serves is refused before anything is sent.
    assert!(
        world.custody.prepare(exchange(&world, "ap-south-1", "terminate", json!({"ids": ["i-1"]}))).is_err()
    );
    assert!(world.service.heard().is_empty());
}

#[tokio::test]
async fn keys_that_would_break_out_of_the_header_are_refused_attack_33() {
    let world = world(true, |_| error(400, "X")).await;
    let broken = world.custody.deposit_credentials(keys(&world.revision, "AKID\r\nX-Evil: 1", false));
    assert!(matches!(broken, Err(DepositError::NotAHeader { key }) if key == "access-key"));
    let odd = world.custody.deposit_credentials(keys(&world.revision, "AKID/eu-west-1/x", false)).unwrap();
    let mut exchange = exchange(&world, "eu-west-1", "terminate", json!({"ids": ["i-1"]}));
    exchange.credentials = Some(odd);
    let answer = world.send(exchange).await;
    assert!(
        matches!(&answer.verdict, Verdict::Rejected(refused) if refused.code == "internal"),
        "{answer:?}"
    );
    assert!(!answer.sent && world.service.heard().is_empty());
}
