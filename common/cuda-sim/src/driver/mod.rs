//! The functions, by the chapters of the driver API's manual.

pub(crate) mod array;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod function;
pub(crate) mod graph;
pub(crate) mod graph_node;
pub(crate) mod launch;
pub(crate) mod link;
pub(crate) mod memory;
pub(crate) mod module;
pub(crate) mod occupancy;
pub(crate) mod parameter;
pub(crate) mod pool;
pub(crate) mod stream;
mod stream_memory;
pub(crate) mod tensor_map;
mod unsupported;
pub(crate) mod user_object;
mod virtual_memory;

use std::ffi::c_int;

use crate::api::Address;

/// Functions that take other parameters than those before them, and the version of CUDA that has them first.
const SINCE: [(&str, c_int); 21] = [
    ("cuCtxCreate_v3", 11040),
    ("cuCtxCreate_v4", 12050),
    ("cuCtxGetDevice_v2", 13000),
    ("cuCtxSynchronize_v2", 13000),
    ("cuGetProcAddress_v2", 12000),
    ("cuGraphAddDependencies_v2", 12030),
    ("cuGraphAddNode_v2", 12030),
    ("cuGraphExecUpdate_v2", 12000),
    ("cuGraphGetEdges_v2", 12030),
    ("cuGraphKernelNodeGetParams_v2", 12000),
    ("cuGraphNodeGetDependencies_v2", 12030),
    ("cuGraphNodeGetDependentNodes_v2", 12030),
    ("cuGraphRemoveDependencies_v2", 12030),
    ("cuMemAdvise_v2", 12020),
    ("cuMemPrefetchAsync_v2", 12020),
    ("cuMemcpy3DBatchAsync_v2", 13000),
    ("cuMemcpyBatchAsync_v2", 13000),
    ("cuStreamGetCaptureInfo_v2", 11030),
    ("cuStreamGetCaptureInfo_v3", 12030),
    ("cuStreamGetCtx_v2", 12050),
    ("cuStreamUpdateCaptureDependencies_v2", 12030),
];

/// The function of that name for a program of that version of CUDA. Programs ask for `cuMemAlloc` and mean its newest version, which
/// is exported as `cuMemAlloc_v2`.
pub(crate) fn find(name: &str, version: c_int) -> Option<Address> {
    // The newest version of this one has another name.
    let name = if name == "cuGraphInstantiate" && version >= 12000 { "cuGraphInstantiateWithFlags" } else { name };
    let chapters = [
        array::FUNCTIONS,
        context::FUNCTIONS,
        device::FUNCTIONS,
        error::FUNCTIONS,
        event::FUNCTIONS,
        function::FUNCTIONS,
        graph::FUNCTIONS,
        graph_node::FUNCTIONS,
        launch::FUNCTIONS,
        link::FUNCTIONS,
        memory::FUNCTIONS,
        module::FUNCTIONS,
        occupancy::FUNCTIONS,
        parameter::FUNCTIONS,
        pool::FUNCTIONS,
        stream::FUNCTIONS,
        stream_memory::FUNCTIONS,
        tensor_map::FUNCTIONS,
        user_object::FUNCTIONS,
        virtual_memory::FUNCTIONS,
    ];
    let is_there = |known: &str| SINCE.iter().all(|(name, since)| *name != known || version >= *since);
    let is_it = |(known, _): &&(&str, Address)| {
        let version = known.strip_prefix(name).and_then(|rest| rest.strip_prefix("_v"));
        *known == name || version.is_some_and(|version| version.parse::<u32>().is_ok()) && is_there(known)
    };
    let newest = chapters.iter().copied().flatten().filter(is_it).max_by_key(|(known, _)| *known);
    newest.or_else(|| unsupported::FUNCTIONS.iter().find(is_it)).map(|(_, address)| *address)
}
