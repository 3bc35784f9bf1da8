//! The contract itself, walked: nothing in it can hand out what custody keeps (attack 1).

use std::collections::HashMap;
use std::path::Path;
use wit_parser::{Function, FunctionKind, Handle, Resolve, Type, TypeDefKind, TypeId};

fn contract() -> Resolve {
    let mut resolve = Resolve::default();
    resolve.push_path(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit"))).unwrap();
    resolve
}

fn functions(resolve: &Resolve) -> Vec<(String, &Function)> {
    let mut all = Vec::new();
    for (_, interface) in resolve.interfaces.iter() {
        let name = interface.name.clone().unwrap_or_default();
        all.extend(interface.functions.values().map(|function| (name.clone(), function)));
    }
    assert!(all.len() > 20, "the walk found the contract");
    all
}

/// Everything that a type is made of, itself included.
fn parts(resolve: &Resolve, ty: &Type, seen: &mut HashMap<TypeId, ()>, visit: &mut dyn FnMut(&Type)) {
    visit(ty);
    let Type::Id(id) = ty else { return };
    if seen.insert(*id, ()).is_some() {
        return;
    }
    let mut inner = Vec::new();
    match &resolve.types[*id].kind {
        TypeDefKind::Record(record) => inner.extend(record.fields.iter().map(|field| field.ty)),
        TypeDefKind::Tuple(tuple) => inner.extend(tuple.types.iter().copied()),
        TypeDefKind::Variant(variant) => inner.extend(variant.cases.iter().filter_map(|case| case.ty)),
        TypeDefKind::Option(ty) | TypeDefKind::List(ty) | TypeDefKind::Type(ty) => inner.push(*ty),
        TypeDefKind::Result(result) => inner.extend([result.ok, result.err].into_iter().flatten()),
        TypeDefKind::Resource | TypeDefKind::Enum(_) | TypeDefKind::Flags(_) | TypeDefKind::Handle(_) => {}
        other => panic!("the contract uses a kind of type that this walk does not know: {other:?}"),
    }
    for ty in inner {
        parts(resolve, &ty, seen, visit);
    }
}

fn holds(resolve: &Resolve, ty: &Type, found: &dyn Fn(&Resolve, &Type) -> bool) -> bool {
    let mut any = false;
    parts(resolve, ty, &mut HashMap::new(), &mut |ty| any |= found(resolve, ty));
    any
}

fn is_handle(resolve: &Resolve, ty: &Type) -> bool {
    matches!(ty, Type::Id(id) if matches!(resolve.types[*id].kind, TypeDefKind::Handle(_)))
}

fn is_bytes(resolve: &Resolve, ty: &Type) -> bool {
    matches!(ty, Type::Id(id) if matches!(resolve.types[*id].kind, TypeDefKind::List(Type::U8)))
}

#[test]
fn resources_of_custody_have_no_functions_at_all() {
    let resolve = contract();
    let (id, custody) = resolve
        .interfaces
        .iter()
        .find(|(_, interface)| interface.name.as_deref() == Some("custody"))
        .unwrap();
    let resources: Vec<&str> = custody.types.keys().map(String::as_str).collect();
    assert_eq!(resources, ["credentials", "user-data"]);
    assert!(custody.functions.is_empty(), "no method, no constructor, no function");
    // Nor may another interface attach one.
    for (interface, function) in functions(&resolve) {
        if let FunctionKind::Method(of) | FunctionKind::Static(of) | FunctionKind::Constructor(of) =
            function.kind
        {
            let owner = resolve.types[of].owner;
            assert_ne!(owner, wit_parser::TypeOwner::Interface(id), "{interface}.{}", function.name);
        }
    }
}

#[test]
fn no_function_returns_a_handle_and_none_takes_one_for_good() {
    let resolve = contract();
    for (interface, function) in functions(&resolve) {
        if let Some(result) = &function.result {
            assert!(!holds(&resolve, result, &is_handle), "{interface}.{} returns a handle", function.name);
        }
        for parameter in &function.params {
            let owned = |resolve: &Resolve, ty: &Type| matches!(ty, Type::Id(id) if matches!(resolve.types[*id].kind, TypeDefKind::Handle(Handle::Own(_))));
            assert!(
                !holds(&resolve, &parameter.ty, &owned),
                "{interface}.{} takes a handle for good",
                function.name
            );
        }
    }
}

#[test]
fn no_function_of_any_interface_passes_raw_bytes() {
    let resolve = contract();
    for (interface, function) in functions(&resolve) {
        let types = function.params.iter().map(|parameter| parameter.ty).chain(function.result);
        for ty in types {
            assert!(!holds(&resolve, &ty, &is_bytes), "{interface}.{} passes bytes", function.name);
        }
    }
}

#[test]
fn an_import_that_takes_a_custody_handle_answers_with_declared_fields_only() {
    let resolve = contract();
    // Whatever is given a handle of custody: its answer is the reply, the outcome or an error, and nothing else.
    for (interface, function) in functions(&resolve) {
        let takes = function.params.iter().any(|parameter| holds(&resolve, &parameter.ty, &is_handle));
        let import = ["custody", "calls", "log", "clock"].contains(&interface.as_str());
        if takes && import {
            assert!(["read", "perform"].contains(&function.name.as_str()), "{interface}.{}", function.name);
        }
    }
}

#[test]
fn every_export_speaks_the_version_that_this_host_speaks() {
    let resolve = contract();
    let (_, package) = resolve.packages.iter().next().unwrap();
    let version = package.name.version.as_ref().unwrap();
    assert_eq!(format!("{}.{}", version.major, version.minor), holdfast_runtime::CONTRACT);
}
