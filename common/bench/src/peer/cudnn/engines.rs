//! cuDNN's engines for a convolution, one plan each.
//!
//! The library's graph API describes work as a graph of operations, and an engine as one way to run a graph. An engine may have
//! knobs, such as the size of its tiles; both the recommended settings and the defaults are used (cuDNN's documentation, "Graph
//! API").

use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

use cudarc::cudnn::result::CudnnError;
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Attribute, cudnnBackendAttributeType_t as Kind,
    cudnnBackendDescriptorType_t as Type, cudnnBackendHeurMode_t as Advice, cudnnBackendNumericalNote_t as Note,
};

use super::{F32, Problem};

/// A descriptor of the graph API, destroyed on drop.
#[repr(transparent)]
struct Descriptor(sys::cudnnBackendDescriptor_t);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. A failure can't be reported here.
        let _ = unsafe { sys::cudnnBackendDestroyDescriptor(self.0) };
    }
}

/// An address on the device.
#[repr(transparent)]
struct Address(*mut c_void);

/// Value of an attribute.
///
/// # Safety
/// The type has the size and the values of the library's type `KIND`.
unsafe trait Value {
    const KIND: Kind;
}

macro_rules! values {
    ($($value:ty: $kind:ident,)*) => {
        $(// SAFETY: the number, address, handle or enum of that name.
        unsafe impl Value for $value {
            const KIND: Kind = Kind::$kind;
        })*
    };
}

values! {
    i64: CUDNN_TYPE_INT64,
    f32: CUDNN_TYPE_FLOAT,
    Address: CUDNN_TYPE_VOID_PTR,
    Descriptor: CUDNN_TYPE_BACKEND_DESCRIPTOR,
    sys::cudnnHandle_t: CUDNN_TYPE_HANDLE,
    sys::cudnnDataType_t: CUDNN_TYPE_DATA_TYPE,
    sys::cudnnConvolutionMode_t: CUDNN_TYPE_CONVOLUTION_MODE,
    Advice: CUDNN_TYPE_HEUR_MODE,
}

impl Descriptor {
    fn new(of: Type) -> Result<Descriptor, CudnnError> {
        let mut raw = null_mut();
        // SAFETY: the library writes a descriptor, or fails.
        unsafe { sys::cudnnBackendCreateDescriptor(of, &mut raw) }.result()?;
        Ok(Descriptor(raw))
    }

    fn set<V: Value>(&self, name: Attribute, values: &[V]) -> Result<(), CudnnError> {
        // SAFETY: the descriptor is alive, and so are the values, which are as many as stated and of the kind stated.
        unsafe { sys::cudnnBackendSetAttribute(self.0, name, V::KIND, values.len() as i64, values.as_ptr().cast()) }
            .result()
    }

    /// Finishes the descriptor: no attribute changes from here on.
    fn finished(self) -> Result<Descriptor, CudnnError> {
        // SAFETY: the descriptor is alive.
        unsafe { sys::cudnnBackendFinalize(self.0) }.result()?;
        Ok(self)
    }

    /// Writes the attribute's values to `into`, and returns their number, or the number written if `into` has any.
    ///
    /// # Safety
    /// `V` has the size of a value of `kind`, and is valid for anything that the library writes.
    unsafe fn get<V>(&self, name: Attribute, kind: Kind, into: &mut [V]) -> Result<usize, CudnnError> {
        let mut count = 0;
        let (room, values) = (into.len() as i64, if into.is_empty() { null_mut() } else { into.as_mut_ptr().cast() });
        // SAFETY: the descriptor is alive, there is room for as many values as stated, and the rest is the caller's promise.
        unsafe { sys::cudnnBackendGetAttribute(self.0, name, kind, room, &mut count, values) }.result()?;
        Ok(count.max(0) as usize)
    }

    fn number(&self, name: Attribute) -> Result<i64, CudnnError> {
        let mut number = [0_i64];
        // SAFETY: a number of 64 bits.
        unsafe { self.get(name, Kind::CUDNN_TYPE_INT64, &mut number) }?;
        Ok(number[0])
    }

    /// Descriptors that the library fills in, up to `most`.
    fn descriptors(&self, name: Attribute, of: Type, most: usize) -> Result<Vec<Descriptor>, CudnnError> {
        let mut found = (0..most).map(|_| Descriptor::new(of)).collect::<Result<Vec<_>, _>>()?;
        // SAFETY: the library takes descriptors and fills them in.
        let count = unsafe { self.get(name, Descriptor::KIND, &mut found) }?;
        found.truncate(count);
        Ok(found)
    }

    /// Number of descriptors.
    fn count(&self, name: Attribute) -> Result<usize, CudnnError> {
        // SAFETY: nothing is written.
        unsafe { self.get::<Descriptor>(name, Descriptor::KIND, &mut []) }
    }
}

/// A tensor of f32 in NCHW, named `id`.
fn tensor(id: i64, shape: [i32; 4]) -> Result<Descriptor, CudnnError> {
    let shape = shape.map(i64::from);
    let [_, c, h, w] = shape;
    let tensor = Descriptor::new(Type::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?;
    tensor.set(Attribute::CUDNN_ATTR_TENSOR_DATA_TYPE, &[F32])?;
    tensor.set(Attribute::CUDNN_ATTR_TENSOR_DIMENSIONS, &shape)?;
    tensor.set(Attribute::CUDNN_ATTR_TENSOR_STRIDES, &[c * h * w, h * w, w, 1])?;
    tensor.set(Attribute::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[id])?;
    // CUDA's allocations have 256; the widest vector load asks for 16.
    tensor.set(Attribute::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[16_i64])?;
    tensor.finished()
}

/// Names of input, weight and output.
const IDS: [i64; 3] = [1, 2, 3];

/// One convolution, with all its descriptors: a plan needs them alive.
struct Graph {
    graph: Descriptor,
    _parts: [Descriptor; 5],
}

impl Graph {
    fn of(handle: sys::cudnnHandle_t, problem: &Problem) -> Result<Graph, CudnnError> {
        let [x, w, y] = [0, 1, 2].map(|at| tensor(IDS[at], problem.shapes[at]));
        let (x, w, y) = (x?, w?, y?);
        let convolution = Descriptor::new(Type::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?;
        convolution.set(Attribute::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[F32])?;
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        convolution.set(Attribute::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[mode])?;
        convolution.set(Attribute::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2_i64])?;
        let padding = problem.padding.map(i64::from);
        convolution.set(Attribute::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &padding)?;
        convolution.set(Attribute::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &padding)?;
        convolution.set(Attribute::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &problem.stride.map(i64::from))?;
        convolution.set(Attribute::CUDNN_ATTR_CONVOLUTION_DILATIONS, &problem.dilation.map(i64::from))?;
        let convolution = convolution.finished()?;
        let operation = Descriptor::new(Type::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)?;
        for (name, part) in [
            (Attribute::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, &x),
            (Attribute::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, &w),
            (Attribute::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, &y),
            (Attribute::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &convolution),
        ] {
            operation.set(name, std::slice::from_ref(part))?;
        }
        operation.set(Attribute::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, &[1.0_f32])?;
        operation.set(Attribute::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, &[0.0_f32])?;
        let operation = operation.finished()?;
        let graph = Descriptor::new(Type::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?;
        graph.set(Attribute::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[handle])?;
        graph.set(Attribute::CUDNN_ATTR_OPERATIONGRAPH_OPS, std::slice::from_ref(&operation))?;
        Ok(Graph { graph: graph.finished()?, _parts: [operation, convolution, y, w, x] })
    }

    /// The library's recommendations: engines with knobs, the best first by its own estimate.
    fn advised(&self, advice: Advice) -> Result<Vec<Descriptor>, CudnnError> {
        let asked = Descriptor::new(Type::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?;
        asked.set(Attribute::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, std::slice::from_ref(&self.graph))?;
        asked.set(Attribute::CUDNN_ATTR_ENGINEHEUR_MODE, &[advice])?;
        let asked = asked.finished()?;
        let results = Attribute::CUDNN_ATTR_ENGINEHEUR_RESULTS;
        asked.descriptors(results, Type::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, asked.count(results)?)
    }

    /// An engine with default knobs.
    fn engine(&self, index: i64) -> Result<Config, CudnnError> {
        let engine = Descriptor::new(Type::CUDNN_BACKEND_ENGINE_DESCRIPTOR)?;
        engine.set(Attribute::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, std::slice::from_ref(&self.graph))?;
        engine.set(Attribute::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[index])?;
        let engine = engine.finished()?;
        let config = Descriptor::new(Type::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)?;
        config.set(Attribute::CUDNN_ATTR_ENGINECFG_ENGINE, std::slice::from_ref(&engine))?;
        Ok(Config { config: config.finished()?, _engine: Some(engine) })
    }
}

/// An engine with its knobs set.
struct Config {
    config: Descriptor,
    /// Engine that it was made from; the library makes those of its recommendations itself.
    _engine: Option<Descriptor>,
}

/// A convolution by one engine, ready to run.
pub(super) struct Plan {
    plan: Descriptor,
    /// Bytes of device memory that it needs besides the tensors.
    pub workspace_bytes: usize,
    /// `engine 34, Winograd 4×4`.
    pub name: String,
    _config: Config,
    _graph: Rc<Graph>,
}

/// Plans of the convolution that multiply and add in f32: those that the library recommends, and each of its engines.
pub(super) fn plans(handle: sys::cudnnHandle_t, problem: &Problem) -> Result<Vec<Plan>, CudnnError> {
    let graph = Rc::new(Graph::of(handle, problem)?);
    let modes = [Advice::CUDNN_HEUR_MODE_A, Advice::CUDNN_HEUR_MODE_B, Advice::CUDNN_HEUR_MODE_FALLBACK];
    let advised = modes.map(|mode| graph.advised(mode));
    let engines = graph.graph.number(Attribute::CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)?;
    let advised = advised.into_iter().filter_map(Result::ok).flatten().map(|config| Config { config, _engine: None });
    // An engine that does not take this convolution says so here, or when its plan is made.
    let configs = advised.chain((0..engines).filter_map(|index| graph.engine(index).ok()));
    Ok(configs.filter_map(|config| Plan::of(handle, config, graph.clone()).ok().flatten()).collect())
}

/// Notes of other arithmetic than f32's: tensor cores, which here means TF32, and shorter operands or sums.
const OTHER_ARITHMETIC: [Note; 3] = [
    Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
    Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
    Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
];

/// Notes that name an engine's method, the most specific first.
const METHODS: [(Note, &str); 5] = [
    (Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, "Winograd 4×4"),
    (Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, "Winograd 6×6"),
    (Note::CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, "Winograd 13×13"),
    (Note::CUDNN_NUMERICAL_NOTE_WINOGRAD, "Winograd"),
    (Note::CUDNN_NUMERICAL_NOTE_FFT, "FFT"),
];

impl Plan {
    /// `None` for other arithmetic.
    fn of(handle: sys::cudnnHandle_t, config: Config, graph: Rc<Graph>) -> Result<Option<Plan>, CudnnError> {
        let engine = Type::CUDNN_BACKEND_ENGINE_DESCRIPTOR;
        let engines = config.config.descriptors(Attribute::CUDNN_ATTR_ENGINECFG_ENGINE, engine, 1)?;
        let Some(engine) = engines.first() else { return Ok(None) };
        // Numbers, since a newer library may know notes that this enum does not.
        let mut notes = [0_i32; 64];
        let kind = Kind::CUDNN_TYPE_NUMERICAL_NOTE;
        // SAFETY: a note is an enum of 32 bits.
        let count = unsafe { engine.get(Attribute::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, kind, &mut notes) }?;
        let has = |note: Note| notes[..count.min(notes.len())].contains(&(note as i32));
        if OTHER_ARITHMETIC.into_iter().any(has) {
            return Ok(None);
        }
        let index = engine.number(Attribute::CUDNN_ATTR_ENGINE_GLOBAL_INDEX)?;
        let method = METHODS.into_iter().find(|&(note, _)| has(note));
        let name = format!("engine {index}{}", method.map_or(String::new(), |(_, method)| format!(", {method}")));
        let plan = Descriptor::new(Type::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?;
        plan.set(Attribute::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[handle])?;
        plan.set(Attribute::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, std::slice::from_ref(&config.config))?;
        let plan = plan.finished()?;
        let workspace = plan.number(Attribute::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        let workspace_bytes = usize::try_from(workspace).unwrap_or(usize::MAX);
        Ok(Some(Plan { plan, workspace_bytes, name, _config: config, _graph: graph }))
    }

    /// Queues the convolution on the handle's stream.
    ///
    /// # Safety
    /// The addresses belong to input, weight and output of the plan's shapes, and to as much memory as it asks for, and stay valid
    /// until the work is done.
    pub(super) unsafe fn launch(
        &self,
        handle: sys::cudnnHandle_t,
        tensors: [*mut c_void; 3],
        workspace: *mut c_void,
    ) -> Result<(), CudnnError> {
        let pack = Descriptor::new(Type::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?;
        pack.set(Attribute::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &IDS)?;
        pack.set(Attribute::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &tensors.map(Address))?;
        pack.set(Attribute::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &[Address(workspace)])?;
        let pack = pack.finished()?;
        // SAFETY: handle, plan and pack are alive; the addresses are the caller's promise.
        unsafe { sys::cudnnBackendExecute(handle, self.plan.0, pack.0) }.result()
    }
}
