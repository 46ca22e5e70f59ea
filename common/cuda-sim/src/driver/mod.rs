//! The functions, by the chapters of the driver API's manual.

pub(crate) mod array;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod graph;
pub(crate) mod graph_node;
pub(crate) mod launch;
pub(crate) mod link;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod parameter;
pub(crate) mod pool;
pub(crate) mod stream;
pub(crate) mod tensor_map;
mod unsupported;
pub(crate) mod user_object;

use crate::api::Address;

/// The function of that name. Programs ask for `cuMemAlloc` and mean its newest version, which is exported as `cuMemAlloc_v2`.
pub(crate) fn find(name: &str) -> Option<Address> {
    // The newest version of this one has another name.
    let name = if name == "cuGraphInstantiate" { "cuGraphInstantiateWithFlags" } else { name };
    let chapters = [
        array::FUNCTIONS,
        context::FUNCTIONS,
        device::FUNCTIONS,
        error::FUNCTIONS,
        event::FUNCTIONS,
        graph::FUNCTIONS,
        graph_node::FUNCTIONS,
        launch::FUNCTIONS,
        link::FUNCTIONS,
        memory::FUNCTIONS,
        module::FUNCTIONS,
        parameter::FUNCTIONS,
        pool::FUNCTIONS,
        stream::FUNCTIONS,
        tensor_map::FUNCTIONS,
        user_object::FUNCTIONS,
    ];
    let is_it = |(known, _): &&(&str, Address)| {
        let version = known.strip_prefix(name).and_then(|rest| rest.strip_prefix("_v"));
        *known == name || version.is_some_and(|version| version.parse::<u32>().is_ok())
    };
    let newest = chapters.iter().copied().flatten().filter(is_it).max_by_key(|(known, _)| *known);
    newest.or_else(|| unsupported::FUNCTIONS.iter().find(is_it)).map(|(_, address)| *address)
}
