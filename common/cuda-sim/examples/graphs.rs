//! A program of the driver API's graphs: each line of its output is one part.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::{c_int, c_uint, c_void};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use driver::{Driver, Symbol, call, exit_code};

mod driver;

const PTX: &str = "
.version 7.0
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry add(.param .u64 target, .param .u32 step) {
    .reg .b64 %target;
    .reg .b32 %step, %old;
    ld.param.u64 %target, [target];
    ld.param.u32 %step, [step];
    atom.global.add.u32 %old, [%target], %step;
    ret;
}

.visible .entry again(.param .u64 condition, .param .u64 value, .param .u32 most) {
    .reg .b64 %condition, %value;
    .reg .b32 %now, %most, %more;
    .reg .pred %p;
    ld.param.u64 %condition, [condition];
    ld.param.u64 %value, [value];
    ld.param.u32 %most, [most];
    ld.global.u32 %now, [%value];
    setp.lt.u32 %p, %now, %most;
    selp.u32 %more, 1, 0, %p;
    {
        .param .b64 handle;
        .param .b32 new;
        st.param.b64 [handle], %condition;
        st.param.b32 [new], %more;
        call.uni cudaGraphSetConditional, (handle, new);
    }
    ret;
}
\0";

/// `CUDA_KERNEL_NODE_PARAMS`
#[repr(C)]
#[derive(Clone)]
struct Kernel {
    function: usize,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    params: *const *const c_void,
    extra: usize,
    kernel: usize,
    context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Debug, Default, PartialEq)]
struct Fill {
    target: u64,
    pitch: usize,
    value: c_uint,
    element_bytes: c_uint,
    width: usize,
    height: usize,
}

/// `CUgraphNodeParams` of a conditional node.
#[repr(C)]
struct Conditional {
    node_type: c_int,
    reserved: [c_int; 3],
    condition: u64,
    choice: c_int,
    size: c_uint,
    bodies: *const usize,
    rest: [u64; 27],
}

static DESTROYED: AtomicU32 = AtomicU32::new(0);

extern "C" fn destroy(_: *mut c_void) {
    DESTROYED.fetch_add(1, Ordering::Relaxed);
}

/// A graph that is launched once in a stream.
fn launched(driver: &Driver, graph: usize, stream: usize) -> Result<(), String> {
    let mut executable = 0_usize;
    call!(driver, "cuGraphInstantiateWithFlags", &raw mut executable, graph, 0)?;
    call!(driver, "cuGraphLaunch", executable, stream)?;
    call!(driver, "cuStreamSynchronize", stream)?;
    call!(driver, "cuGraphExecDestroy", executable)
}

fn run() -> Result<(), String> {
    let driver = &Driver::open()?;
    let (mut context, mut module, mut add, mut again) = (0_usize, 0_usize, 0_usize, 0_usize);
    call!(driver, "cuInit", 0)?;
    call!(driver, "cuCtxCreate_v2", &raw mut context, 0, 0)?;
    call!(driver, "cuModuleLoadData", &raw mut module, PTX.as_ptr())?;
    call!(driver, "cuModuleGetFunction", &raw mut add, module, c"add".as_ptr())?;
    call!(driver, "cuModuleGetFunction", &raw mut again, module, c"again".as_ptr())?;
    let (mut value, mut stream, mut other) = (0_u64, 0_usize, 0_usize);
    call!(driver, "cuMemAlloc_v2", &raw mut value, 4)?;
    call!(driver, "cuMemsetD32_v2", value, 0, 1)?;
    call!(driver, "cuStreamCreate", &raw mut stream, 0)?;
    call!(driver, "cuStreamCreate", &raw mut other, 0)?;
    let read = || {
        let mut read = 0_u32;
        call!(driver, "cuMemcpyDtoH_v2", &raw mut read, value, 4).map(|()| read)
    };
    let kernel = |function, params: *const *const c_void| Kernel {
        function,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        params,
        extra: 0,
        kernel: 0,
        context: 0,
    };

    // Parameters as they were set, and set again to what they were.
    let (mut graph, mut fill, mut launch, mut gone) = (0_usize, 0_usize, 0_usize, 0_usize);
    call!(driver, "cuGraphCreate", &raw mut graph, 0)?;
    let step = 2_u32;
    let params = [(&raw const value).cast(), (&raw const step).cast()];
    let adds = kernel(add, params.as_ptr());
    let hundred = Fill { target: value, pitch: 0, value: 100, element_bytes: 4, width: 1, height: 1 };
    call!(driver, "cuGraphAddMemsetNode", &raw mut fill, graph, 0, 0, &raw const hundred, context)?;
    call!(driver, "cuGraphAddKernelNode_v2", &raw mut launch, graph, &raw const fill, 1, &raw const adds)?;
    call!(driver, "cuGraphAddKernelNode_v2", &raw mut gone, graph, &raw const fill, 1, &raw const adds)?;
    let (mut same, mut got) = (Fill::default(), kernel(0, std::ptr::null()));
    call!(driver, "cuGraphMemsetNodeGetParams", fill, &raw mut same)?;
    call!(driver, "cuGraphKernelNodeGetParams_v2", launch, &raw mut got)?;
    // SAFETY: two parameters of the kernel, the second of which has 4 bytes; they live as long as the node's parameters.
    let got_step = unsafe { (*got.params.add(1)).cast::<u32>().read() };
    println!("parameters {} {} {got_step}", same == hundred, got.function == add);
    got.grid = [5, 1, 1];
    call!(driver, "cuGraphKernelNodeSetParams_v2", launch, &raw const got)?;
    call!(driver, "cuGraphDestroyNode", gone)?;
    launched(driver, graph, stream)?;
    println!("value {}", read()?);

    // The graph of a node, which may get more nodes; objects that the graph keeps.
    let (mut parent, mut child, mut own, mut object) = (0_usize, 0_usize, 0_usize, 0_usize);
    call!(driver, "cuGraphCreate", &raw mut parent, 0)?;
    call!(driver, "cuGraphAddChildGraphNode", &raw mut child, parent, 0, 0, graph)?;
    call!(driver, "cuGraphChildGraphNodeGetGraph", child, &raw mut own)?;
    call!(driver, "cuGraphAddKernelNode_v2", &raw mut gone, own, &raw const launch, 0, &raw const adds)?;
    call!(driver, "cuUserObjectCreate", &raw mut object, 0, destroy as *const c_void, 1, 1)?;
    call!(driver, "cuGraphRetainUserObject", parent, object, 1, 1)?;
    launched(driver, parent, stream)?;
    let before = DESTROYED.load(Ordering::Relaxed);
    call!(driver, "cuGraphDestroy", parent)?;
    println!("child {} {}, objects {before} {}", own != graph, read()?, DESTROYED.load(Ordering::Relaxed));

    // A capture that forks and joins, and one into a graph that exists.
    let (mut fork, mut join, mut captured) = (0_usize, 0_usize, 0_usize);
    call!(driver, "cuEventCreate", &raw mut fork, 0)?;
    call!(driver, "cuEventCreate", &raw mut join, 0)?;
    call!(driver, "cuStreamBeginCapture_v2", stream, 0)?;
    call!(driver, "cuMemsetD32Async", value, 1, 1, stream)?;
    call!(driver, "cuEventRecord", fork, stream)?;
    let query = call!(driver, "cuEventQuery", fork).unwrap_err();
    call!(driver, "cuStreamWaitEvent", other, fork, 0)?;
    call!(driver, "cuMemsetD32Async", value, 2, 1, stream)?;
    call!(driver, "cuMemsetD32Async", value, 2, 1, other)?;
    call!(driver, "cuEventRecord", join, other)?;
    call!(driver, "cuStreamWaitEvent", stream, join, 0)?;
    call!(driver, "cuMemsetD32Async", value, 3, 1, stream)?;
    call!(driver, "cuStreamEndCapture", stream, &raw mut captured)?;
    let (mut nodes, mut edges, mut last) = (0_usize, 0_usize, [0_usize; 4]);
    call!(driver, "cuGraphGetEdges_v2", captured, 0, 0, 0, &raw mut edges)?;
    call!(driver, "cuGraphGetNodes", captured, 0, &raw mut nodes)?;
    call!(driver, "cuGraphGetNodes", captured, last.as_mut_ptr(), &raw mut nodes)?;
    println!("capture: {nodes} nodes, {edges} edges, {query}");
    call!(driver, "cuStreamBeginCaptureToGraph", stream, captured, &raw const last[3], 0, 1, 0)?;
    call!(driver, "cuEventRecordWithFlags", fork, stream, 1)?;
    call!(driver, "cuStreamUpdateCaptureDependencies", stream, &raw const last[0], 1, 1)?;
    call!(driver, "cuMemsetD32Async", value, 4, 1, stream)?;
    call!(driver, "cuStreamEndCapture", stream, 0)?;
    let mut types = Vec::new();
    let (mut all, mut count) = ([0_usize; 8], 8_usize);
    call!(driver, "cuGraphGetNodes", captured, all.as_mut_ptr(), &raw mut count)?;
    for node in &all[nodes..count] {
        let (mut node_type, mut before, mut dependencies) = (0 as c_int, [0_usize; 8], 8_usize);
        call!(driver, "cuGraphNodeGetType", *node, &raw mut node_type)?;
        let (places, room) = (before.as_mut_ptr(), &raw mut dependencies);
        call!(driver, "cuGraphNodeGetDependencies_v2", *node, places, 0, room)?;
        types.push((node_type, before[..dependencies].iter().map(|node| node >> 32).collect::<Vec<_>>()));
    }
    // As programs of CUDA 12 ask.
    let (mut from, mut to, mut edges) = ([0_usize; 8], [0_usize; 8], 8_usize);
    call!(driver, "cuGraphGetEdges", captured, from.as_mut_ptr(), to.as_mut_ptr(), &raw mut edges)?;
    let (mut near, mut dependents) = ([0_usize; 8], 8_usize);
    call!(driver, "cuGraphNodeGetDependentNodes", all[0], near.as_mut_ptr(), &raw mut dependents)?;
    count = 8;
    call!(driver, "cuGraphNodeGetDependencies", all[3], near.as_mut_ptr(), &raw mut count)?;
    println!("edges {edges}, {dependents} after the first, {count} before the fourth");
    call!(driver, "cuGraphRemoveDependencies", captured, from.as_ptr(), to.as_ptr(), 1)?;
    call!(driver, "cuGraphGetEdges", captured, 0, 0, &raw mut edges)?;
    call!(driver, "cuGraphAddDependencies", captured, from.as_ptr(), to.as_ptr(), 1)?;
    let file = std::env::temp_dir().join(format!("cuda-sim-graphs-{}.dot", std::process::id()));
    let path = std::ffi::CString::new(file.to_str().unwrap()).unwrap();
    call!(driver, "cuGraphDebugDotPrint", graph, path.as_ptr(), 0)?;
    print!("{edges} without one\n{}", std::fs::read_to_string(&file).unwrap());
    std::fs::remove_file(file).unwrap();
    launched(driver, captured, stream)?;
    let mut milliseconds = 0.0_f32;
    call!(driver, "cuEventSynchronize", fork)?;
    println!("captured {types:?}, {}", call!(driver, "cuEventElapsedTime", &raw mut milliseconds, fork, fork).is_ok());

    let (mut id, mut of_node, mut local) = (0 as c_uint, 0_usize, 9 as c_uint);
    call!(driver, "cuGraphGetId", graph, &raw mut id)?;
    call!(driver, "cuGraphNodeGetContainingGraph", launch, &raw mut of_node)?;
    call!(driver, "cuGraphNodeGetLocalId", launch, &raw mut local)?;

    // The same graph with another value, and one of another shape.
    let (mut executable, mut result) = (0_usize, 9 as c_int);
    call!(driver, "cuGraphInstantiateWithFlags", &raw mut executable, graph, 0)?;
    let (mut of_executable, mut tools) = (0 as c_uint, 0_u64);
    call!(driver, "cuGraphExecGetId", executable, &raw mut of_executable)?;
    call!(driver, "cuGraphNodeGetToolsId", launch, &raw mut tools)?;
    println!("node {local} of its graph {}, named apart {}", of_node == graph, id != of_executable && tools != 0);
    let fifty = Fill { value: 50, ..hundred };
    call!(driver, "cuGraphMemsetNodeSetParams", fill, &raw const fifty)?;
    call!(driver, "cuGraphExecUpdate", executable, graph, 0, &raw mut result)?;
    call!(driver, "cuGraphLaunch", executable, stream)?;
    print!("updated {result} {}, ", read()?);
    let other_shape = call!(driver, "cuGraphExecUpdate", executable, captured, 0, &raw mut result).unwrap_err();
    println!("{other_shape}, {result}");

    // A loop, whose condition is 1 at the beginning of each launch.
    let (mut circle, mut condition, mut node) = (0_usize, 0_u64, 0_usize);
    call!(driver, "cuGraphCreate", &raw mut circle, 0)?;
    call!(driver, "cuGraphConditionalHandleCreate", &raw mut condition, circle, context, 1, 1)?;
    let mut body = Conditional {
        node_type: 13,
        reserved: [0; 3],
        condition,
        choice: 1,
        size: 1,
        bodies: std::ptr::null(),
        rest: [0; 27],
    };
    call!(driver, "cuGraphAddNode_v2", &raw mut node, circle, 0, 0, 0, &raw mut body)?;
    // SAFETY: the list of the one graph that was asked for.
    let body = unsafe { *body.bodies };
    let most = 10_u32;
    let decides = [(&raw const condition).cast(), (&raw const value).cast(), (&raw const most).cast()];
    let decides = kernel(again, decides.as_ptr());
    call!(driver, "cuGraphAddKernelNode_v2", &raw mut node, body, 0, 0, &raw const adds)?;
    call!(driver, "cuGraphAddKernelNode_v2", &raw mut node, body, &raw const node, 1, &raw const decides)?;
    call!(driver, "cuMemsetD32_v2", value, 1, 1)?;
    for _ in 0..2 {
        launched(driver, circle, stream)?;
        println!("loop {}", read()?);
    }
    call!(driver, "cuGraphAddEventWaitNode", &raw mut node, body, 0, 0, fork)?;
    let waits = call!(driver, "cuGraphInstantiateWithFlags", &raw mut node, circle, 0).unwrap_err();
    println!("a wait in a loop: {waits}");
    let flags = call!(driver, "cuGraphInstantiateWithFlags", &raw mut node, graph, 5).unwrap_err();
    println!("flags: {flags}");

    // A thread without a context, whose streams and events have theirs. No bytes are no address.
    let nothing = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut nothing = 1_u64;
            call!(driver, "cuEventSynchronize", fork)?;
            call!(driver, "cuMemAllocAsync", &raw mut nothing, 0, stream)?;
            call!(driver, "cuMemsetD32Async", value, 7, 1, stream)?;
            call!(driver, "cuStreamSynchronize", stream).map(|()| nothing)
        });
        thread.join().unwrap()
    })?;
    println!("without a context: {nothing} {}", read()?);
    call!(driver, "cuCtxDestroy_v2", context)
}

fn main() -> ExitCode {
    exit_code(run())
}
