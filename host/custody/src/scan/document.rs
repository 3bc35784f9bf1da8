//! Which parts of a document are secrets on their own (attack 13), without making its ordinary words forbidden ones
//! (attack 89): whole lines, values after a telling name, and tokens that look random.

use zeroize::Zeroizing;

/// One part worth scanning for.
pub(super) struct Part<'a> {
    pub bytes: &'a [u8],
    /// A token, which gets every form; lines get the common ones.
    pub random: bool,
}

/// A line shorter than this is too likely to be said by somebody else.
const LINE_FLOOR: usize = 16;

/// Lines and prefixes of lines that stand in everybody's first-boot data and key files.
const COMMON: &[&str] = &[
    "#cloud-config",
    "#!/",
    "#include",
    "-----BEGIN",
    "-----END",
    "Content-Type:",
    "Content-Transfer-Encoding:",
    "Content-Disposition:",
    "MIME-Version:",
    "package_update:",
    "package_upgrade:",
    "ssh_pwauth:",
    "preserve_hostname:",
    "[Unit]",
    "[Service]",
    "[Install]",
    "WantedBy=",
    "network-online.target",
    "set -e",
    "apt-get ",
    "systemctl ",
];

/// Names whose value is a secret, whatever it looks like.
const TELLING: &[&str] = &["pass", "secret", "token", "key", "psk", "credential", "auth", "hash", "private"];

/// The parts of a document. `public` is a word that may be repeated.
pub(super) fn parts<'a>(document: &'a [u8], public: &str) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    for line in document.split(|b| matches!(b, b'\n' | b'\r')) {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"- ").unwrap_or(line);
        // A line of one word is a word: it must look like a secret by itself.
        if line.len() >= LINE_FLOOR && line.contains(&b' ') && !is_common(line) {
            parts.push(Part { bytes: line, random: false });
        }
        tokens(line, public.as_bytes(), &mut parts);
    }
    parts
}

fn is_common(line: &[u8]) -> bool {
    COMMON.iter().any(|common| line.starts_with(common.as_bytes())) || line.iter().all(|b| *b == line[0])
}

fn tokens<'a>(line: &'a [u8], public: &[u8], parts: &mut Vec<Part<'a>>) {
    let mut named = false;
    for token in line.split(|b| is_separator(*b)) {
        let token = token.strip_suffix(b",").unwrap_or(token);
        if token.is_empty() {
            continue;
        }
        let secret = named || looks_random(&without(token, public));
        if token.len() >= super::FLOOR && token != public && secret && !token.starts_with(b"-----") {
            parts.push(Part { bytes: token, random: true });
        }
        named = is_telling(token);
    }
    // `key: some words`: the whole value, spaces included.
    if let Some(colon) = line.iter().position(|b| matches!(b, b':' | b'='))
        && is_telling(&line[..colon])
    {
        let value = line[colon + 1..].trim_ascii();
        if value.len() >= super::FLOOR && value != public {
            parts.push(Part { bytes: value, random: true });
        }
    }
}

/// A token without the machine's own name: what is left of `md-0-7f9c4-x2x9k.prod.example` decides.
fn without(token: &[u8], public: &[u8]) -> Zeroizing<Vec<u8>> {
    let at = token.windows(public.len().max(1)).position(|window| window == public);
    Zeroizing::new(match at {
        Some(at) => [&token[..at], &token[at + public.len()..]].concat(),
        None => token.to_vec(),
    })
}

fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b'"' | b'\'' | b':' | b'=' | b';' | b'<' | b'>' | b'{' | b'}' | b'`')
}

fn is_telling(name: &[u8]) -> bool {
    let name = Zeroizing::new(name.to_ascii_lowercase());
    name.len() <= 40
        && TELLING.iter().any(|telling| name.windows(telling.len()).any(|w| w == telling.as_bytes()))
}

/// Random text changes between letters, digits and cases far more often than names, versions and addresses do.
fn looks_random(token: &[u8]) -> bool {
    if token.len() < super::FLOOR {
        return false;
    }
    let class = |b: &u8| match b {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        _ => 0,
    };
    let mut changes = 0;
    let mut seen = [false; 4];
    for pair in token.windows(2) {
        let (a, b) = (class(&pair[0]), class(&pair[1]));
        changes += usize::from(a != 0 && b != 0 && a != b);
        seen[a] = true;
        seen[b] = true;
    }
    let letters_and_digits = (seen[1] || seen[2]) && seen[3];
    letters_and_digits && (changes >= 4 || (seen[1] && seen[2] && changes >= 3))
}

#[cfg(test)]
mod tests {
    fn found(document: &str) -> Vec<&str> {
        super::parts(document.as_bytes(), "web-1")
            .iter()
            .map(|p| std::str::from_utf8(p.bytes).unwrap())
            .collect()
    }

    #[test]
    fn values_after_telling_names_and_random_tokens_are_secrets_attack_13() {
        let parts = found("#cloud-config\npassword: correcthorse\nx: a1b2c3d4e5f6\n");
        assert!(parts.contains(&"correcthorse"));
        assert!(parts.contains(&"a1b2c3d4e5f6"));
        assert!(parts.contains(&"password: correcthorse"));
    }

    #[test]
    fn names_versions_addresses_and_common_lines_are_not_attack_89() {
        let parts = found(
            "#cloud-config\nhostname: web-1\nimage ubuntu-24.04\n- node-01.prod.example.com 10.20.30.40\n",
        );
        assert!(
            !parts.iter().any(|p| ["web-1", "ubuntu-24.04", "node-01.prod.example.com"].contains(p)),
            "{parts:?}"
        );
        assert!(!parts.contains(&"#cloud-config"));
        let named = super::parts(b"fqdn md-0-7f9c4b5d8-x2x9k.prod.example", "md-0-7f9c4b5d8-x2x9k");
        assert!(named.iter().all(|part| !part.random));
        assert!(found("hosts:\n  - node-01.prod.example.com\n  /etc/systemd/network\n").is_empty());
    }
}
