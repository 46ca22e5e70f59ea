//! cuBLAS and cuBLASLt on tensor cores, and cuBLASLt's suggestions in f32 too: the matrix products to compare with.

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::cublas::CudaBlas;
use cudarc::cublas::sys as blas;
use cudarc::cublaslt::result as lt;
use cudarc::cublaslt::sys;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};

use super::open::{failed, int, open};
use common::device::{Buffer, Stream};
use common::error::{Error, Result};
use common::probe::Library;
use common::tensor::ElementType;
use common::tensor::Tensor;

/// Maximum memory of each library besides the matrices.
const WORKSPACE: usize = 64 << 20;
/// Number of cuBLASLt's suggestions that are tried.
const SUGGESTIONS: usize = 8;

/// Both libraries, for work on one stream.
pub struct TensorBlas {
    blas: CudaBlas,
    lt: sys::cublasLtHandle_t,
    cuda: Arc<CudaStream>,
    stream: Stream,
    workspace: Buffer<u8>,
    /// Whether f32 may be rounded to tf32.
    rounds: bool,
}

impl Drop for TensorBlas {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. A failure can't be reported here.
        let _ = unsafe { lt::destroy_handle(self.lt) };
    }
}

/// One of cuBLASLt's suggestions for products of one size.
pub struct Suggestion<'l> {
    libraries: &'l TensorBlas,
    descriptors: Rc<Descriptors>,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

/// Descriptors of a product for cuBLASLt: column-major, so of Cᵀ = Bᵀ·Aᵀ.
struct Descriptors {
    product: sys::cublasLtMatmulDesc_t,
    a: sys::cublasLtMatrixLayout_t,
    b: sys::cublasLtMatrixLayout_t,
    c: sys::cublasLtMatrixLayout_t,
    integer: bool,
    /// Whether a bias is added, and ReLU taken.
    biased: bool,
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: each was created once and is destroyed once. A failure can't be reported here.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.product);
            for layout in [self.a, self.b, self.c] {
                let _ = lt::destroy_matrix_layout(layout);
            }
        }
    }
}

/// M, N and K of operands that fit one another, the types, and whether B is transposed.
struct Product {
    size: [usize; 3],
    input: ElementType,
    output: ElementType,
    transposed: bool,
    rounds: bool,
}

impl Product {
    fn of([a, b]: [&Tensor; 2], transposed: bool, c: &Tensor, rounds: bool) -> Result<Product> {
        let ([m, k], [_, n]) = (a.dims("cuBLAS's A")?, c.dims("cuBLAS's C")?);
        c.expect_shape("cuBLAS's C", &[m, n])?;
        b.expect_shape("cuBLAS's B", &if transposed { [n, k] } else { [k, n] })?;
        Ok(Product { size: [m, n, k], input: a.element_type(), output: c.element_type(), transposed, rounds })
    }

    fn is_integer(&self) -> bool {
        self.input == ElementType::I8
    }

    /// Types of sums and scalars: f32, also for tf32; for integers i32. Without permission to round, f32 is multiplied as
    /// it is.
    fn arithmetic(&self) -> (blas::cublasComputeType_t, blas::cudaDataType) {
        match self.input {
            ElementType::I8 => (blas::cublasComputeType_t::CUBLAS_COMPUTE_32I, blas::cudaDataType::CUDA_R_32I),
            ElementType::F32 if self.rounds => {
                (blas::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, blas::cudaDataType::CUDA_R_32F)
            }
            _ => (blas::cublasComputeType_t::CUBLAS_COMPUTE_32F, blas::cudaDataType::CUDA_R_32F),
        }
    }
}

/// Number of the type in both libraries.
fn number(element: ElementType) -> blas::cudaDataType {
    match element {
        ElementType::F32 => blas::cudaDataType::CUDA_R_32F,
        ElementType::F16 => blas::cudaDataType::CUDA_R_16F,
        ElementType::BF16 => blas::cudaDataType::CUDA_R_16BF,
        ElementType::F8E4M3 => blas::cudaDataType::CUDA_R_8F_E4M3,
        ElementType::I8 => blas::cudaDataType::CUDA_R_8I,
        ElementType::I32 => blas::cudaDataType::CUDA_R_32I,
    }
}

/// 1 and 0 as scalars of a product.
fn scalars(integer: bool) -> [*const c_void; 2] {
    static FLOATS: [f32; 2] = [1.0, 0.0];
    static INTEGERS: [i32; 2] = [1, 0];
    if integer {
        [0, 1].map(|at| std::ptr::from_ref(&INTEGERS[at]).cast())
    } else {
        [0, 1].map(|at| std::ptr::from_ref(&FLOATS[at]).cast())
    }
}

impl TensorBlas {
    /// Opens the libraries for work on `stream`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if one is not installed, with the command that installs it, and on the simulator; [`Error::Cuda`] if
    /// one fails to start; [`Error::OutOfMemory`] for their workspace.
    pub fn open(stream: &Stream) -> Result<TensorBlas> {
        let cuda = open(Library::Cublas, stream, blas::is_culib_present)?.clone();
        open(Library::CublasLt, stream, sys::is_culib_present)?;
        let blas = CudaBlas::new(cuda.clone()).map_err(|error| failed(Library::Cublas, stream, error))?;
        let workspace = stream.alloc_uninit(WORKSPACE)?;
        let lt = lt::create_handle().map_err(|error| failed(Library::CublasLt, stream, error))?;
        Ok(TensorBlas { blas, lt, cuda, stream: stream.clone(), workspace, rounds: true })
    }

    /// The same, but f32 is multiplied as f32, not rounded to tf32.
    #[must_use]
    pub fn in_f32(mut self) -> TensorBlas {
        self.rounds = false;
        self
    }

    /// Queues C = A·B by `cublasGemmEx`, row-major, with `a` \[M, K\], `b` \[K, N\] or, `transposed`, \[N, K\], and `c` \[M, N\]; f32
    /// is multiplied as tf32, unless [`TensorBlas::in_f32`] forbids it.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another, [`Error::Unsupported`] for unsupported types and beyond 31 bits,
    /// [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`], [`Error::Cuda`].
    pub fn gemm(&self, a: &Tensor, b: &Tensor, transposed: bool, c: &mut Tensor) -> Result<()> {
        let product = Product::of([a, b], transposed, c, self.rounds)?;
        if product.input == ElementType::F8E4M3 {
            return Err(Error::Unsupported {
                what: "cublasGemmEx of 8-bit floats".to_owned(),
                device: self.stream.device().short_name(),
                reason: "cuBLASLt alone multiplies them".to_owned(),
            });
        }
        let [m, n, k] = product.size;
        let int = |size: usize| int(Library::Cublas, &self.stream, size);
        let (m, n, k) = (int(m)?, int(n)?, int(k)?);
        let (plain, flipped) = (blas::cublasOperation_t::CUBLAS_OP_N, blas::cublasOperation_t::CUBLAS_OP_T);
        let (of_b, wide) = if transposed { (flipped, k) } else { (plain, n) };
        let (compute, _) = product.arithmetic();
        let [alpha, beta] = scalars(product.is_integer());
        let (a, b, c) = (a.as_cuda(&self.stream)?, b.as_cuda(&self.stream)?, c.as_cuda_mut(&self.stream)?);
        let ((a, _a), (b, _b), (c, _c)) =
            (a.device_ptr(&self.cuda), b.device_ptr(&self.cuda), c.device_ptr_mut(&self.cuda));
        let (input, output) = (number(product.input), number(product.output));
        let algorithm = blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT;
        // SAFETY: shapes, types and leading dimensions are those of the tensors, as compared above; the handle's stream is this one.
        unsafe {
            blas::cublasGemmEx(
                *self.blas.handle(),
                of_b,
                plain,
                n,
                m,
                k,
                alpha,
                b as *const c_void,
                input,
                wide,
                a as *const c_void,
                input,
                k,
                beta,
                c as *mut c_void,
                output,
                n,
                compute,
                algorithm,
            )
        }
        .result()
        .map_err(|error| failed(Library::Cublas, &self.stream, error))
    }

    /// cuBLASLt's first suggestions for C = A·B, with the arguments of [`TensorBlas::gemm`]; 8-bit floats are added up with
    /// `CUBLASLT_MATMUL_DESC_FAST_ACCUM`, as tensor cores do by default.
    ///
    /// # Errors
    /// Errors of [`TensorBlas::gemm`], and [`Error::Cuda`] if it has none.
    pub fn suggestions(&self, a: &Tensor, b: &Tensor, transposed: bool, c: &Tensor) -> Result<Vec<Suggestion<'_>>> {
        self.suggest([a, b], transposed, false, c)
    }

    /// The same for relu(A·B + bias), whose suggestions are for [`Suggestion::launch_with_bias`].
    ///
    /// # Errors
    /// Same as [`TensorBlas::suggestions`].
    pub fn suggestions_with_bias(
        &self,
        a: &Tensor,
        b: &Tensor,
        transposed: bool,
        c: &Tensor,
    ) -> Result<Vec<Suggestion<'_>>> {
        self.suggest([a, b], transposed, true, c)
    }

    fn suggest(&self, ab: [&Tensor; 2], transposed: bool, biased: bool, c: &Tensor) -> Result<Vec<Suggestion<'_>>> {
        let product = Product::of(ab, transposed, c, self.rounds)?;
        let fail = |error| failed(Library::CublasLt, &self.stream, error);
        let descriptors = Descriptors::of(&product, biased).map_err(fail)?;
        let preference = lt::create_matmul_pref().map_err(fail)?;
        let attribute = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let mut found =
            [const { std::mem::MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit() }; SUGGESTIONS];
        let mut count = 0;
        // SAFETY: all descriptors are alive, `found` has room for as many results as it says.
        let asked = unsafe {
            lt::set_matmul_pref_attribute(
                preference,
                attribute,
                std::ptr::from_ref(&WORKSPACE).cast(),
                size_of::<usize>(),
            )
            .and_then(|()| {
                sys::cublasLtMatmulAlgoGetHeuristic(
                    self.lt,
                    descriptors.product,
                    descriptors.b,
                    descriptors.a,
                    descriptors.c,
                    descriptors.c,
                    preference,
                    SUGGESTIONS as i32,
                    found.as_mut_ptr().cast(),
                    &mut count,
                )
                .result()
            })
        };
        // SAFETY: created above, destroyed once.
        let _ = unsafe { lt::destroy_matmul_pref(preference) };
        asked.map_err(fail)?;
        let descriptors = Rc::new(descriptors);
        // SAFETY: the library has filled in `count` results.
        let found = found[..count as usize].iter().map(|result| unsafe { result.assume_init() });
        let usable = found.filter(|result| result.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        let suggestion = |result: sys::cublasLtMatmulHeuristicResult_t| Suggestion {
            libraries: self,
            descriptors: descriptors.clone(),
            algorithm: result.algo,
        };
        Ok(usable.map(suggestion).collect())
    }
}

impl Descriptors {
    fn of(product: &Product, biased: bool) -> Result<Descriptors, lt::CublasError> {
        let (compute, scalar) = product.arithmetic();
        let [m, n, k] = product.size.map(|size| size as u64);
        // SAFETY: both modules are of one header: the enums have the same numbers.
        let (compute, scalar) = unsafe { (same_number(compute), same_number(scalar)) };
        // SAFETY: as above.
        let (input, output) = unsafe { (same_number(number(product.input)), same_number(number(product.output))) };
        let (rows, columns) = if product.transposed { (k, n) } else { (n, k) };
        let descriptors = Descriptors {
            product: lt::create_matmul_desc(compute, scalar)?,
            a: lt::create_matrix_layout(input, k, m, k as i64)?,
            b: lt::create_matrix_layout(input, rows, columns, rows as i64)?,
            c: lt::create_matrix_layout(output, n, m, n as i64)?,
            integer: product.is_integer(),
            biased,
        };
        let set = |attribute, value: &i32| {
            // SAFETY: the descriptor was just made, and these attributes have at most 4 bytes.
            unsafe {
                let bytes = if attribute == FAST { 1 } else { size_of::<i32>() };
                lt::set_matmul_desc_attribute(descriptors.product, attribute, std::ptr::from_ref(value).cast(), bytes)
            }
        };
        const FAST: sys::cublasLtMatmulDescAttributes_t =
            sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_FAST_ACCUM;
        set(
            sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
            &(if product.transposed {
                blas::cublasOperation_t::CUBLAS_OP_T
            } else {
                blas::cublasOperation_t::CUBLAS_OP_N
            } as i32),
        )?;
        if product.input == ElementType::F8E4M3 {
            set(FAST, &1)?;
        }
        if biased {
            set(
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE,
                &(sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS as i32),
            )?;
        }
        Ok(descriptors)
    }
}

/// A value of the other module's copy of an enum of the same header.
///
/// # Safety
/// Both must have the same numbers.
unsafe fn same_number<From: Copy, To: Copy>(value: From) -> To {
    const { assert!(size_of::<From>() == size_of::<To>()) };
    // SAFETY: the caller's promise.
    unsafe { std::mem::transmute_copy(&value) }
}

impl Suggestion<'_> {
    /// Queues C = A·B by this algorithm, for tensors of the shapes and types that it was suggested for.
    ///
    /// # Errors
    /// Same as [`TensorBlas::gemm`].
    pub fn launch(&self, a: &Tensor, b: &Tensor, c: &mut Tensor) -> Result<()> {
        if self.descriptors.biased {
            return Err(Error::Invalid("a suggestion for a product with a bias is launched without one".to_owned()));
        }
        self.queue(a, b, c)
    }

    /// Queues C = relu(A·B + bias), with `bias` \[N\] of C's type, for a suggestion of [`TensorBlas::suggestions_with_bias`].
    ///
    /// # Errors
    /// Same as [`TensorBlas::gemm`].
    pub fn launch_with_bias(&self, a: &Tensor, b: &Tensor, bias: &Tensor, c: &mut Tensor) -> Result<()> {
        if !self.descriptors.biased {
            return Err(Error::Invalid("a suggestion for a product without a bias is launched with one".to_owned()));
        }
        let [_, n] = c.dims("cuBLASLt's C")?;
        bias.expect_shape("cuBLASLt's bias", &[n])?;
        if bias.element_type() != c.element_type() {
            return Err(Error::Invalid("cuBLASLt's bias has another type than C".to_owned()));
        }
        let TensorBlas { cuda, stream, .. } = self.libraries;
        let (pointer, _bias) = bias.as_cuda(stream)?.device_ptr(cuda);
        let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
        // SAFETY: the attribute is a pointer, of 8 bytes, to as many values as a row of C has; `_bias` is alive until the product
        // is queued.
        unsafe {
            lt::set_matmul_desc_attribute(
                self.descriptors.product,
                attribute,
                std::ptr::from_ref(&pointer).cast(),
                size_of_val(&pointer),
            )
        }
        .map_err(|error| failed(Library::CublasLt, stream, error))?;
        self.queue(a, b, c)
    }

    fn queue(&self, a: &Tensor, b: &Tensor, c: &mut Tensor) -> Result<()> {
        let TensorBlas { lt, cuda, stream, workspace, .. } = self.libraries;
        let Descriptors { product, integer, .. } = *self.descriptors;
        let [alpha, beta] = scalars(integer);
        let memory = workspace.as_cuda().ok_or_else(|| Error::Invalid("the workspace is on no GPU".to_owned()))?;
        let (a, b, c) = (a.as_cuda(stream)?, b.as_cuda(stream)?, c.as_cuda_mut(stream)?);
        let ((a, _a), (b, _b), (memory, _memory)) = (a.device_ptr(cuda), b.device_ptr(cuda), memory.device_ptr(cuda));
        let (c, _c) = c.device_ptr_mut(cuda);
        // SAFETY: descriptors and algorithm are those of the tensors' shapes and types; the workspace is as large as was said, and
        // launches that use it follow one another on the stream.
        unsafe {
            lt::matmul(
                *lt,
                product,
                alpha,
                beta,
                b as *const c_void,
                self.descriptors.b,
                a as *const c_void,
                self.descriptors.a,
                c as *const c_void,
                self.descriptors.c,
                c as *mut c_void,
                self.descriptors.c,
                &self.algorithm,
                memory as *mut c_void,
                WORKSPACE,
                cuda.cu_stream().cast(),
            )
        }
        .map_err(|error| failed(Library::CublasLt, stream, error))
    }
}
