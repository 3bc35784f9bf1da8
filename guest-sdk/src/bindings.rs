//! The contract as wit-bindgen sees it. The widest world is bound once; a module exports from it only what
//! `provider!` was asked for, and carries the component type of its own, narrower world.

// What wit-bindgen writes is its own: it hands buffers over by forgetting them.
#![allow(missing_docs, clippy::all, clippy::mem_forget)]

wit_bindgen::generate!({
    path: "../wit",
    world: "capacity-provider",
    generate_all,
    pub_export_macro: true,
    runtime_path: "::holdfast_guest_sdk::__private::wit_bindgen::rt",
    default_bindings_module: "::holdfast_guest_sdk::bindings",
});
