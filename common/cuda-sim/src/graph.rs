//! Graphs: work by nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use crate::abi::{Handle, Pointer};
use crate::work::{Host, Work};

/// `CUgraph` and `CUgraphExec`.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Nodes by number.
    pub(crate) nodes: Mutex<BTreeMap<usize, Node>>,
    /// References to objects of the program, each with the object's handle.
    pub(crate) objects: Mutex<Vec<(Handle, Arc<UserObject>)>>,
    /// Places of conditions that have a value at the beginning of each launch.
    pub(crate) conditions: Mutex<Vec<(Pointer, u32)>>,
    /// Flags of `cuGraphInstantiateWithFlags`.
    pub(crate) flags: u64,
}

/// `CUgraphNode`
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) work: Work,
    /// Numbers of the nodes that come before it.
    pub(crate) after: BTreeSet<usize>,
    pub(crate) enabled: bool,
}

/// `CUuserObject`: the program's function is called when the last reference is gone.
#[derive(Debug)]
pub(crate) struct UserObject {
    pub(crate) data: Host,
    pub(crate) destroy: unsafe extern "C" fn(*mut c_void),
}

impl Drop for UserObject {
    fn drop(&mut self) {
        // SAFETY: the program gave us the function to be called with this argument.
        unsafe { (self.destroy)(self.data.0.cast()) };
    }
}
