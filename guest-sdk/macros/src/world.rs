//! The component type of a module's own world, as the linker wants it in a custom section.

use wit_component::{StringEncoding, metadata};
use wit_parser::{Resolve, SourceMap};

const WIT: &[(&str, &str)] = &[
    ("calls.wit", include_str!("../../../wit/calls.wit")),
    ("capacity.wit", include_str!("../../../wit/capacity.wit")),
    ("cluster.wit", include_str!("../../../wit/cluster.wit")),
    ("control-plane.wit", include_str!("../../../wit/control-plane.wit")),
    ("custody.wit", include_str!("../../../wit/custody.wit")),
    ("operations.wit", include_str!("../../../wit/operations.wit")),
    ("types.wit", include_str!("../../../wit/types.wit")),
    ("worlds.wit", include_str!("../../../wit/worlds.wit")),
];

/// Encodes a world of the contract.
///
/// # Errors
/// Where the contract's text is broken, as one sentence.
pub(crate) fn component_type(world: &str) -> Result<Vec<u8>, String> {
    let mut sources = SourceMap::default();
    for (name, text) in WIT {
        sources.push_str(name, *text);
    }
    let group = sources.parse().map_err(|(_, error)| format!("{error:?}"))?;
    let mut resolve = Resolve::default();
    let package = resolve.push_group(group).map_err(|error| format!("{error:?}"))?;
    let world = resolve.select_world(&[package], Some(world)).map_err(|error| error.to_string())?;
    metadata::encode(&resolve, world, StringEncoding::UTF8, None).map_err(|error| error.to_string())
}
