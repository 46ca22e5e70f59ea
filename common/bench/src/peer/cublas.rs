//! cuBLAS: the matrix product to compare with.

use cudarc::cublas::{CudaBlas, Gemm as _, GemmConfig, sys};

use super::open::{failed, int, open, view, view_mut};
use common::device::Stream;
#[cfg(doc)]
use common::error::Error;
use common::error::Result;
use common::probe::Library;
use common::tensor::Tensor;

/// A handle to cuBLAS that queues its work on one stream.
///
/// Its math mode is `CUBLAS_DEFAULT_MATH`: the fastest algorithm that keeps f32's mantissa throughout, so no TF32. (The
/// pedantic mode uses the same arithmetic with fewer algorithms to choose from.) The variable `NVIDIA_TF32_OVERRIDE` must not
/// be set.
#[derive(Debug)]
pub struct Cublas {
    handle: CudaBlas,
    stream: Stream,
}

impl Cublas {
    /// Opens the library for work on `stream`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is not installed, with the command that installs it, and on the simulator; [`Error::Cuda`]
    /// if it fails to start.
    pub fn open(stream: &Stream) -> Result<Cublas> {
        let cuda = open(Library::Cublas, stream, sys::is_culib_present)?;
        let fail = |error| failed(Library::Cublas, stream, error);
        let handle = CudaBlas::new(cuda.clone()).map_err(fail)?;
        // SAFETY: the handle was just made.
        unsafe { sys::cublasSetMathMode(*handle.handle(), sys::cublasMath_t::CUBLAS_DEFAULT_MATH) }
            .result()
            .map_err(fail)?;
        Ok(Cublas { handle, stream: stream.clone() })
    }

    /// Queues C = alpha·A·B + beta·C, row-major, with `a` \[M, K\], `b` \[K, N\] or, `transposed`, \[N, K\], and `c` \[M, N\]; at
    /// beta 0 `c` is not read.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another, [`Error::Unsupported`] beyond 31 bits, [`Error::Invalid`] if a
    /// tensor is on the host, [`Error::WrongDevice`], [`Error::Cuda`].
    pub fn gemm(&self, a: &Tensor, b: &Tensor, transposed: bool, alpha: f32, beta: f32, c: &mut Tensor) -> Result<()> {
        let ([m, k], [_, n]) = (a.dims("cuBLAS's A")?, c.dims("cuBLAS's C")?);
        c.expect_shape("cuBLAS's C", &[m, n])?;
        b.expect_shape("cuBLAS's B", &if transposed { [n, k] } else { [k, n] })?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let int = |size: usize| int(Library::Cublas, &self.stream, size);
        let (m, n, k) = (int(m)?, int(n)?, int(k)?);
        let (plain, flipped) = (sys::cublasOperation_t::CUBLAS_OP_N, sys::cublasOperation_t::CUBLAS_OP_T);
        // cuBLAS is column-major: it sees a row-major matrix as its transpose, so we request Cᵀ = Bᵀ·Aᵀ.
        let config = GemmConfig {
            transa: if transposed { flipped } else { plain },
            transb: plain,
            m: n,
            n: m,
            k,
            alpha,
            lda: if transposed { k.max(1) } else { n },
            ldb: k.max(1),
            beta,
            ldc: n,
        };
        let (a, b, mut c) = (view(a, &self.stream)?, view(b, &self.stream)?, view_mut(c, &self.stream)?);
        // SAFETY: shapes and leading dimensions are those of the tensors, as compared above.
        unsafe { self.handle.gemm(config, &b, &a, &mut c) }
            .map_err(|error| failed(Library::Cublas, &self.stream, error))
    }
}
