//! The scanner of secrets: 20 secrets in all their forms over JSON without a hit, beside aho-corasick.
//!
//! Goal: 2 GB/s over 1 MiB of JSON, and (X1) at least three times `AhoCorasick::new` in the same run. Bodies made of
//! escapes alone show what a hostile reply costs.

mod support;

use aho_corasick::{AhoCorasick, packed};
use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use data_encoding::{HEXLOWER, HEXUPPER};
use holdfast_custody::scan::{Kind, Scanner};
use std::time::{Duration, Instant};
use support::figures::{Goal, Ratio, head_of_goals, median, preamble, rounds};

const SECRETS: usize = 20;
const SIZES: [(&str, usize); 2] = [("64 KiB", 64 << 10), ("1 MiB", 1 << 20)];

/// Does a body hold a secret?
type Find = Box<dyn Fn(&[u8]) -> bool>;

/// A way to look for the secrets. True on a hit.
struct Way {
    name: String,
    find: Find,
    built: Duration,
}

fn main() -> Result<()> {
    let secrets: Vec<String> = (0..SECRETS).map(secret).collect();
    let ways = ways(&secrets)?;
    preamble("scan");
    check(&ways, &secrets)?;
    let (rounds, length) = rounds(7, 60);
    println!("\n| way | built in µs |\n|---|--:|");
    for way in &ways {
        println!("| {} | {:.0} |", way.name, way.built.as_secs_f64() * 1e6);
    }
    println!("\n| body | way | GB/s (of rounds) | µs per body |\n|---|---|--:|--:|");
    let mut goals = Vec::new();
    for (kind, make) in BODIES {
        let hostile = kind.contains("nothing but");
        for (size, bytes) in SIZES {
            let body = make(bytes);
            let rates = measure(&ways, &body, rounds, length);
            for (way, rates) in ways.iter().zip(&rates) {
                let rate = median(rates.clone());
                let low = rates.iter().copied().fold(f64::MAX, f64::min);
                let high = rates.iter().copied().fold(0.0, f64::max);
                let each = bytes as f64 / rate / 1e3;
                println!("| {kind}, {size} | {} | {rate:.2} ({low:.2}..{high:.2}) | {each:.0} |", way.name);
            }
            goals.push((format!("{kind}, {size}"), rates, hostile));
        }
    }
    head_of_goals();
    for (body, rates, _) in goals.into_iter().filter(|(_, _, hostile)| !hostile) {
        println!("{}", Ratio::of(rates[0].clone()).row(&format!("{body}: GB/s"), Goal::AtLeast(2.0)));
        let over: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(own, other)| own / other).collect();
        println!("{}", Ratio::of(over).row(&format!("{body}: over `AhoCorasick::new`"), Goal::AtLeast(3.0)));
    }
    Ok(())
}

fn ways(secrets: &[String]) -> Result<Vec<Way>> {
    let begun = Instant::now();
    let mut scanner = Scanner::new();
    for (owner, secret) in secrets.iter().enumerate() {
        scanner.add(owner as u32, Kind::Value, secret.as_bytes(), "");
    }
    let built = begun.elapsed();
    let name = format!("custody's scanner, {} entries", scanner.forms());
    let mut ways = vec![Way { name, find: Box::new(move |text| scanner.find(text).is_some()), built }];
    for (what, patterns) in [("all forms", all_forms(secrets)), ("7 forms", seven_forms(secrets))] {
        let begun = Instant::now();
        let found = AhoCorasick::new(&patterns)?;
        let built = begun.elapsed();
        let name = format!("`AhoCorasick::new`, {what} written out: {}", patterns.len());
        ways.push(Way { name, find: Box::new(move |text| found.is_match(text)), built });
    }
    let patterns = seven_forms(secrets);
    let begun = Instant::now();
    let sets: Vec<packed::Searcher> =
        patterns.chunks(64).filter_map(|set| packed::Searcher::new(set.iter())).collect();
    let built = begun.elapsed();
    ensure!(sets.len() == patterns.len().div_ceil(64), "this processor has no vectors for Teddy");
    let name = format!("Teddy in sets of 64, 7 forms: {}", patterns.len());
    ways.push(Way {
        name,
        find: Box::new(move |text| sets.iter().any(|set| set.find(text).is_some())),
        built,
    });
    Ok(ways)
}

/// Each way finds each form that it should; what is compared does the same work.
fn check(ways: &[Way], secrets: &[String]) -> Result<()> {
    let body = json(4096);
    for (patterns, which) in [(all_forms(secrets), 0..2), (seven_forms(secrets), 0..4)] {
        for pattern in patterns {
            let mut text = body.clone();
            text.splice(1000..1000, pattern.iter().copied());
            for way in &ways[which.clone()] {
                ensure!((way.find)(&text), "{} misses {}", way.name, String::from_utf8_lossy(&pattern));
            }
        }
    }
    Ok(())
}

/// GB/s of processor time of each way in each round.
fn measure(ways: &[Way], body: &[u8], rounds: usize, length: Duration) -> Vec<Vec<f64>> {
    let mut rates = vec![Vec::new(); ways.len()];
    for round in 0..=rounds {
        for (way, rates) in ways.iter().zip(&mut rates) {
            let (begun, worked, mut bodies) = (Instant::now(), on_processor(), 0u64);
            while begun.elapsed() < length {
                assert!(!(way.find)(std::hint::black_box(body)), "{} hits nothing that is there", way.name);
                bodies += 1;
            }
            let took = begun.elapsed();
            let took =
                on_processor().zip(worked).map_or(took, |(now, then)| now.saturating_sub(then).min(took));
            if round > 0 {
                rates.push(bodies as f64 * body.len() as f64 / took.as_secs_f64() / 1e9);
            }
        }
    }
    rates
}

/// Processor time of this thread, to within a tick of the scheduler, so that other work on the machine counts less. `None`
/// where the system doesn't tell: then the clock on the wall is taken.
fn on_processor() -> Option<Duration> {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    figures.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// As tokens and passwords look: some share the prefix of a vendor, some have signs in them.
fn secret(n: usize) -> String {
    const WORD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!\"/+&%$ =?";
    let (prefix, length, letters) =
        [("dop_v1_", 40, WORD), ("AKIA", 20, WORD), ("ghp_", 32, WORD), ("", 24, SIGNS)][n % 4];
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (n as u64 + 1).wrapping_mul(0xD129_0E5B_7C15_9E37));
    let rest: String = (0..length).map(|_| letters[random.below(letters.len())] as char).collect();
    format!("{prefix}{rest}")
}

/// Every form of the list that can be written out; a plain search needs each as a pattern.
fn all_forms(secrets: &[String]) -> Vec<Vec<u8>> {
    let mut forms = seven_forms(secrets);
    for secret in secrets {
        let bytes = secret.as_bytes();
        forms.push(bytes.to_ascii_lowercase());
        forms.push(bytes.to_ascii_uppercase());
        forms.push(bytes.iter().rev().copied().collect());
        forms.push(HEXUPPER.encode(bytes).into_bytes());
        forms.push(percent(secret, |byte| format!("%{byte:02x}")));
        forms.extend((0..3).map(|offset| core(bytes, offset, &URL_SAFE_NO_PAD)));
        for inner in (0..3).map(|offset| core(bytes, offset, &STANDARD_NO_PAD)) {
            forms.extend((0..3).map(|offset| core(&inner, offset, &STANDARD_NO_PAD)));
        }
        for wide in [wide(secret, u16::to_le_bytes), wide(secret, u16::to_be_bytes)] {
            forms.push(HEXLOWER.encode(&wide).into_bytes());
            forms.extend((0..3).map(|offset| core(&wide, offset, &STANDARD_NO_PAD)));
            forms.push(wide);
        }
    }
    distinct(forms)
}

/// The forms of the measurements that the goal comes from.
fn seven_forms(secrets: &[String]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for secret in secrets {
        let bytes = secret.as_bytes();
        forms.push(bytes.to_vec());
        forms.extend((0..3).map(|offset| core(bytes, offset, &STANDARD_NO_PAD)));
        forms.push(HEXLOWER.encode(bytes).into_bytes());
        forms.push(percent(secret, |byte| format!("%{byte:02X}")));
        let quoted = serde_json::Value::from(secret.as_str()).to_string();
        forms.push(quoted.as_bytes()[1..quoted.len() - 1].to_vec());
    }
    distinct(forms)
}

fn distinct(mut forms: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    forms.sort();
    forms.dedup();
    forms
}

fn percent(text: &str, escape: impl Fn(u8) -> String) -> Vec<u8> {
    let one = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => (byte as char).to_string(),
        byte => escape(byte),
    };
    text.bytes().map(one).collect::<String>().into_bytes()
}

fn wide(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

/// What of a base64 text does not depend on the neighbours, at an alignment.
fn core(bytes: &[u8], offset: usize, engine: &impl base64::Engine) -> Vec<u8> {
    let padded = [&[0; 2][..offset], bytes].concat();
    let text = engine.encode(&padded).into_bytes();
    let (first, last) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    text[first..last].to_vec()
}

type Make = fn(usize) -> Vec<u8>;
const BODIES: [(&str, Make); 6] = [
    ("JSON", json),
    ("JSON with a few escapes", sparse),
    ("JSON with escapes", escaped),
    ("base64", base64_text),
    ("nothing but escapes of four families", mixed),
    ("nothing but escapes in escapes", nested),
];

/// A list of servers.
fn json(bytes: usize) -> Vec<u8> {
    let mut random = Random(1);
    filled(bytes, || {
        let n = random.next();
        format!(
            "{{\"id\":\"srv-{n:016x}\",\"name\":\"web-{}\",\"region\":\"eu-central-1\",\"status\":\"running\",\
             \"address\":\"10.{}.{}.{}\",\"tags\":[\"prod\",\"web\"],\"created_at\":\"2026-11-2{}T10:00:00Z\"}},",
            n % 1000,
            n % 255,
            (n >> 8) % 255,
            (n >> 16) % 255,
            n % 9
        )
    })
}

/// The same with texts and links, as people and paging leave them: the scanner peels such escapes off and reads again.
fn escaped(bytes: usize) -> Vec<u8> {
    let mut random = Random(2);
    filled(bytes, || {
        let n = random.next();
        format!(
            "{{\"id\":\"srv-{n:016x}\",\"note\":\"rack {}\\n\\\"keep\\\" on\",\"next\":\"/v1/servers?name=web%20{}\\u0026\
             page=2\",\"status\":\"running\",\"created_at\":\"2026-11-2{}T10:00:00Z\"}},",
            n % 40,
            n % 1000,
            n % 9
        )
    })
}

/// JSON with an escape every 3,000 bytes.
fn sparse(bytes: usize) -> Vec<u8> {
    filled(bytes, || [&json(3000)[..], b"\\n"].concat())
}

/// What a service sends to keep the scanner busy.
fn mixed(bytes: usize) -> Vec<u8> {
    let mut random = Random(4);
    filled(bytes, || {
        let n = random.next() % 26 + 65;
        format!("%{n:x}&#{n};\\x{n:x}={n:X}\\u00{n:x}")
    })
}

/// The same in two layers.
fn nested(bytes: usize) -> Vec<u8> {
    let mut random = Random(4);
    filled(bytes, || {
        let n = random.next() % 26 + 65;
        format!("%25{n:x}&#38;#{n};\\\\x{n:x}=3D{n:X}%5Cx{n:x}&#x25;{n:x}")
    })
}

/// An archive or an image.
fn base64_text(bytes: usize) -> Vec<u8> {
    let mut random = Random(3);
    let raw = filled(bytes, || random.next().to_le_bytes());
    let mut text = base64::engine::general_purpose::STANDARD.encode(raw).into_bytes();
    text.truncate(bytes);
    text
}

fn filled<T: AsRef<[u8]>>(bytes: usize, mut next: impl FnMut() -> T) -> Vec<u8> {
    let mut body = Vec::with_capacity(bytes + 512);
    while body.len() < bytes {
        body.extend_from_slice(next().as_ref());
    }
    body.truncate(bytes);
    body
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
