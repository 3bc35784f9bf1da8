//! The attacks that custody answers, by number of the catalogue: which design answers each, and which test shows it.
//!
//! Tests live in `src/tests` (against a hostile service over real TLS) and beside the code. *Off* names the switch of
//! the `harness` feature with which the attack succeeds, so that the test is known to be able to fail.
//!
//! # Into the guest
//!
//! | # | attack | answer | shown in | off |
//! | --- | --- | --- | --- | --- |
//! | 1 | ask for bytes | no public function reads a [`SecretBytes`](crate::SecretBytes) | its compile-fail examples | |
//! | 2 | echo, error bodies | typed fields, listed words only, scan | `tests/echoes`, `reply/project_tests` | `scan`, `grammar` |
//! | 3 | store now, read later | the live set is the provider's, and outlives revocation by a grace | `tests/echoes` | `scan` |
//! | 4, 5 | read-back and console calls | grant by name (L9) | `tests/network` | |
//! | 6, 7 | headers, trailers, 1xx, 101 | declared headers that come once; the rest is dropped | `tests/replies` | |
//! | 8 | encodings | forms, folding, peeling; grammars first | `scan/tests` | `scan` |
//! | 9 | compression | `identity` asked for; anything else is unfit | `tests/replies` | |
//! | 10, 11 | chunks, truncation | read whole under a cap, then judged | `tests/catalogue`, `tests/replies` | |
//! | 12 | slices | windows of long values; texts of a reply joined | `scan/tests`, `tests/echoes` | `scan` |
//! | 13 | a line of first-boot data | lines, named values and random tokens are secrets | `scan/document` | |
//! | 15 | scanner as oracle | a hit is worded like a misfit, before anything is sent | `tests/echoes` | |
//! | 16 | digests | fingerprints are HMACs of this host | `tests/requests` | |
//! | 17 | lengths | classes only | `reply/project_tests` | |
//! | 20, 49, 85 | kinds and owners mixed up | slots name their kind; deposits belong to a provider | `tests/requests` | |
//! | 21 | laundering by capture | each secret is watched on its own account | `tests/catalogue` | |
//!
//! # Onto the network
//!
//! | # | attack | answer | shown in | off |
//! | --- | --- | --- | --- | --- |
//! | 26, 90 | other destinations | bindings; the same words for whatever is not granted | `tests/network` | |
//! | 27 | redirects, foreign URLs | never followed; URLs keep origin and glob | `tests/network`, `tests/replies`, `seal` | |
//! | 28, 29 | rebinding, inner addresses | resolved once, all addresses checked, pinned | `tests/network`, `transport/address` | `address` |
//! | 30, 34, 41 | host, framing, methods | typed authority; names that only the host sets | `tests/catalogue`, `request/headers` | |
//! | 31, 32 | userinfo, parser differences | one parser, parsed again and compared | `request/path`, `registry` | |
//! | 33 | control characters | refused at deposit and at placing | `tests/credentials`, `request/headers` | |
//! | 35 | shared connections | pooled by revision, binding and credentials; no tickets | `tests/network` | |
//! | 36, 37 | proxies, key logs, roots by environment | none are read; system roots are refused when chosen so | `transport/tls` | |
//! | 38 | the attacker's account | first-boot data only beside our credentials | `tests/catalogue` | |
//! | 42 | secrets in a query | grant by name | `grants` | |
//! | 43 to 45 | wrong leaf, duplicate keys, escaping | skeletons, vacant leaves, own writers | `request/json`, `request/form` | |
//! | 47, 48 | captures | any status, all or nothing, watched | `tests/sessions`, `tests/echoes` | |
//! | 50 | self-signed services | pinned keys, no insecure switch | `tests/network` | |
//!
//! # Into the host's own records
//!
//! | # | attack | answer | shown in |
//! | --- | --- | --- | --- |
//! | 56, 58, 60, 69 | prepared requests shown | no `Debug`, `Clone` or `Serialize` | compile-fail examples |
//! | 66 | core files | [`harden_process`](crate::harden_process) | `harden` |
//! | 67 | remnants | lengths first, exact buffers, wiped | `secret`, `request/json` |
//! | 87, 88 | nothing spliced, fail open | a missing slot or credential sends nothing | `tests/requests` |
//!
//! # Not promised
//!
//! TLS, HTTP and gzip libraries keep plaintext for a while, `serde_json` unescapes strings of a reply in a buffer of its
//! own before they are copied into wiped memory, and an echo that is withheld has passed through ordinary memory. A passphrase of first-boot data that is one lower-case word without
//! a telling name is scanned for as part of the whole document only. Interleaved text is found where what lies between
//! is punctuation. Secrets are not locked into memory: that needs unsafe code, which this crate forbids.
