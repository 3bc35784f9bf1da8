//! The nested build makes components, and makes them once.

use holdfast_tests::modules;

#[test]
fn every_shipped_provider_is_built_as_a_component_and_a_second_call_builds_nothing() {
    let first = modules::build().unwrap();
    for provider in ["simulated", "redfish"] {
        let path = first.provider(provider).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        // The preamble of a component: magic, version 13, layer 1.
        assert_eq!(bytes.get(..8), Some(&b"\0asm\x0d\0\x01\0"[..]), "{} is no component", path.display());
    }
    let made = std::fs::metadata(first.provider("redfish").unwrap()).unwrap().modified().unwrap();
    let second = modules::build().unwrap();
    assert_eq!(std::fs::metadata(second.provider("redfish").unwrap()).unwrap().modified().unwrap(), made);
}
