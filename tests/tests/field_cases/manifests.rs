//! What the shipped providers' manifests say of first-boot data.

use holdfast_manifest::{Encoding, Manifest, MaxOf, Slot, SlotKind};
use holdfast_tests::folders;

fn slots(provider: &str) -> Vec<Slot> {
    let path = folders::checkout().join(format!("providers/{provider}/provider.toml"));
    let manifest = Manifest::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let slots = manifest.calls.into_values().flat_map(|call| call.slots.into_values());
    slots.filter(|slot| matches!(slot.kind, SlotKind::UserData)).collect()
}

#[test]
fn the_limits_of_the_shipped_providers_are_those_of_their_services_j01_j04() {
    for (provider, limit, plain) in [("ec2", 16_384, true), ("hcloud", 32_768, false)] {
        let slots = slots(provider);
        assert!(!slots.is_empty(), "{provider}");
        for slot in slots {
            assert_eq!(slot.max_bytes, Some(limit), "{provider}");
            // One limit, two numbers: base64 makes a third more of it.
            assert!(slot.max_of == MaxOf::Plain || slot.encode == [Encoding::Utf8], "{provider}");
            assert_eq!(slot.max_of == MaxOf::Plain, plain, "{provider}");
        }
    }
}

#[test]
fn no_shipped_provider_compresses_first_boot_data_by_itself_j02_j03() {
    for provider in ["ec2", "hcloud", "simulated"] {
        for slot in slots(provider) {
            assert!(!slot.encode.contains(&Encoding::Gzip), "{provider}: not every image can read that");
        }
    }
}
