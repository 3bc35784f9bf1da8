//! Which addresses may be connected to, after resolution and after unwrapping every form that embeds another address
//! (attacks 28, 29).

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of instance metadata services: reachable only by a range of exactly that address.
const METADATA: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// May this address be connected to? `ranges` are the operator's; with `only_ranges` (endpoints with an address per
/// machine) nothing outside them is.
pub(crate) fn allowed(address: IpAddr, ranges: &[IpNet], only_ranges: bool) -> bool {
    let address = address.to_canonical();
    let whole = |net: &IpNet| net.prefix_len() == net.max_prefix_len();
    let forms = forms(address);
    let metadata = forms.iter().any(|form| METADATA.contains(form));
    if ranges.iter().any(|net| net.contains(&address) && (!metadata || whole(net))) {
        return true;
    }
    !only_ranges && !metadata && !forms.iter().any(|form| forbidden(*form))
}

/// The address and everything it embeds.
fn forms(address: IpAddr) -> Vec<IpAddr> {
    let mut forms = vec![address];
    let IpAddr::V6(v6) = address else { return forms };
    let octets = v6.octets();
    let s = v6.segments();
    let four = |at: usize, flip: u8| {
        IpAddr::V4(Ipv4Addr::new(
            octets[at] ^ flip,
            octets[at + 1] ^ flip,
            octets[at + 2] ^ flip,
            octets[at + 3] ^ flip,
        ))
    };
    // IPv4-mapped, IPv4-compatible, IPv4-translated (RFC 4291, RFC 2765).
    if s[..4] == [0; 4] && (s[4] == 0 || s[4] == 0xffff) && (s[5] == 0 || s[5] == 0xffff) {
        forms.push(four(12, 0));
    }
    // NAT64, well-known and local (RFC 6052, RFC 8215).
    if s[0] == 0x64 && s[1] == 0xff9b {
        forms.push(four(12, 0));
    }
    // 6to4 (RFC 3056).
    if s[0] == 0x2002 {
        forms.push(four(2, 0));
    }
    // Teredo: server, and client with inverted bits (RFC 4380).
    if s[0] == 0x2001 && s[1] == 0 {
        forms.extend([four(4, 0), four(12, 0xff)]);
    }
    // ISATAP (RFC 5214).
    if (s[4] & 0xfdff) == 0 && s[5] == 0x5efe {
        forms.push(four(12, 0));
    }
    forms
}

fn forbidden(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => forbidden_v4(v4),
        IpAddr::V6(v6) => forbidden_v6(v6),
    }
}

/// Everything of the IANA special-purpose registry that is not globally reachable, and multicast.
fn forbidden_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    match a {
        0 | 10 | 127 => true,
        100 => (64..128).contains(&b),
        169 => b == 254,
        172 => (16..32).contains(&b),
        192 => b == 168 || (b == 0 && (c == 0 || c == 2)) || (b == 88 && c == 99),
        198 => b == 18 || b == 19 || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        _ => a >= 224,
    }
}

fn forbidden_v6(v6: Ipv6Addr) -> bool {
    let s = v6.segments();
    let zero_prefix = s[..6] == [0; 6];
    zero_prefix
        || (s[0] & 0xfe00) == 0xfc00
        || (s[0] & 0xffc0) == 0xfe80
        || (s[0] & 0xffc0) == 0xfec0
        || (s[0] & 0xff00) == 0xff00
        || (s[0] == 0x100 && s[1..4] == [0; 3])
        || (s[0] == 0x2001 && s[1] == 0xdb8)
        || (s[0] == 0x3fff && s[1] < 0x1000)
        || s[0] == 0x5f00
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok(address: &str, ranges: &[&str], only: bool) -> bool {
        let ranges: Vec<IpNet> = ranges.iter().map(|range| range.parse().unwrap()).collect();
        allowed(address.parse().unwrap(), &ranges, only)
    }

    #[test]
    fn inner_addresses_are_refused_in_every_disguise_attack_29() {
        for evil in [
            "127.0.0.1",
            "127.255.0.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.100.100.200",
            "100.64.0.1",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "198.18.0.1",
            "240.0.0.1",
            "::",
            "::1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a00:1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001:0:a00:1::1",
            "2001:0:808:808::80ff:fffe",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "100::1",
            "2001:470::5efe:127.0.0.1",
        ] {
            assert!(!ok(evil, &[], false), "{evil}");
        }
        for good in ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808"]
        {
            assert!(ok(good, &[], false), "{good}");
        }
    }

    #[test]
    fn a_granted_range_opens_exactly_itself() {
        assert!(ok("10.1.2.3", &["10.1.0.0/16"], false));
        assert!(ok("::ffff:10.1.2.3", &["10.1.0.0/16"], false));
        assert!(!ok("10.2.2.3", &["10.1.0.0/16"], false));
        assert!(!ok("64:ff9b::a01:203", &["10.1.0.0/16"], false));
        assert!(ok("127.0.0.1", &["127.0.0.1/32"], false));
    }

    #[test]
    fn metadata_addresses_need_a_grant_of_exactly_that_address() {
        assert!(!ok("169.254.169.254", &["169.254.0.0/16"], false));
        assert!(!ok("169.254.169.254", &["0.0.0.0/0"], false));
        assert!(ok("169.254.169.254", &["169.254.169.254/32"], false));
    }

    #[test]
    fn an_address_per_machine_must_lie_in_the_granted_ranges() {
        assert!(!ok("8.8.8.8", &["10.0.0.0/8"], true));
        assert!(ok("10.0.0.9", &["10.0.0.0/8"], true));
        assert!(!ok("8.8.8.8", &[], true));
    }
}
