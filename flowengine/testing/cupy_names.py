"""NumPy's names that CuPy 14.2 has, with the parameters that its functions take.

Taken down from CuPy itself; what is not here, a kernel that is for any device may not use.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions that are applied element by element, and can be given `out`.
UFUNCS: Final = _words("""
    abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
    atan2 atanh bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor cbrt ceil conj conjugate copysign cos cosh deg2rad degrees divide
    divmod equal exp exp2 expm1 fabs fix float_power floor floor_divide fmax fmin fmod frexp gcd greater
    greater_equal heaviside hypot i0 invert isfinite isinf isnan lcm ldexp left_shift less less_equal
    log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum
    minimum mod modf multiply negative nextafter not_equal positive pow power rad2deg radians reciprocal
    remainder right_shift rint sign signbit sin sinc sinh sqrt square subtract tan tanh true_divide
    trunc
    """)

#: Other functions: `name(parameter,...)`.
_FUNCTIONS: Final = """
    all(a,axis,out,keepdims) allclose(a,b,rtol,atol,equal_nan) amax(a,axis,out,keepdims)
    amin(a,axis,out,keepdims) angle(z,deg) any(a,axis,out,keepdims) append(arr,values,axis)
    arange(start,stop,step,dtype) argmax(a,axis,dtype,out,keepdims) argmin(a,axis,dtype,out,keepdims)
    argpartition(a,kth,axis) argsort(a,axis,kind) argwhere(a) around(a,decimals,out)
    array(obj,dtype,copy,order,subok,ndmin,blocking) array_equal(a1,a2,equal_nan) array_equiv(a1,a2)
    array_split(ary,indices_or_sections,axis) asanyarray(a,dtype,order,copy,blocking)
    asarray(a,dtype,order,copy,blocking) ascontiguousarray(a,dtype) asfortranarray(a,dtype)
    astype(x,dtype,copy) atleast_1d(*arys) atleast_2d(*arys) atleast_3d(*arys)
    average(a,axis,weights,returned,keepdims) bartlett(M) bincount(x,weights,minlength) blackman(M)
    broadcast_arrays(*args) broadcast_shapes(*args) broadcast_to(array,shape) can_cast(from_,to,casting)
    choose(a,choices,out,mode) clip(a,a_min,a_max,out) column_stack(tup) common_type(*arrays)
    compress(condition,a,axis,out) concat(tup,axis,out,dtype,casting)
    concatenate(tup,axis,out,dtype,casting) convolve(a,v,mode) copy(a,order) copyto(dst,src,casting,where)
    corrcoef(a,y,rowvar,bias,ddof,dtype) correlate(a,v,mode) count_nonzero(a,axis)
    cov(a,y,rowvar,bias,ddof,fweights,aweights,dtype) cross(a,b,axisa,axisb,axisc,axis)
    cumprod(a,axis,dtype,out) cumsum(a,axis,dtype,out) cumulative_prod(x,axis,dtype,out,include_initial)
    cumulative_sum(x,axis,dtype,out,include_initial) delete(arr,indices,axis) diag(v,k) diag_indices(n,ndim)
    diag_indices_from(arr) diagflat(v,k) diagonal(a,offset,axis1,axis2) diff(a,n,axis,prepend,append)
    digitize(x,bins,right) dot(a,b,out) dsplit(ary,indices_or_sections) dstack(tup)
    ediff1d(arr,to_end,to_begin) einsum(*operands,**kwargs) empty(shape,dtype,order)
    empty_like(prototype,dtype,order,subok,shape) expand_dims(a,axis) extract(condition,a)
    eye(N,M,k,dtype,order) fill_diagonal(a,val,wrap) flatnonzero(a) flip(a,axis) fliplr(a) flipud(a)
    frombuffer(*args,**kwargs) fromfunction(*args,**kwargs) fromiter(*args,**kwargs)
    full(shape,fill_value,dtype,order) full_like(a,fill_value,dtype,order,subok,shape)
    gradient(f,*varargs,axis,edge_order) hamming(M) hanning(M) histogram(x,bins,range,density,weights)
    histogram2d(x,y,bins,range,weights,density) histogramdd(sample,bins,range,weights,density)
    hsplit(ary,indices_or_sections) hstack(tup,dtype,casting) identity(n,dtype) imag(val)
    indices(dimensions,dtype) inner(a,b) interp(x,xp,fp,left,right,period)
    intersect1d(arr1,arr2,assume_unique,return_indices) isclose(a,b,rtol,atol,equal_nan) iscomplex(x)
    iscomplexobj(x) isdtype(dtype,kind) isfortran(a) isin(element,test_elements,assume_unique,invert)
    isneginf(x,out) isposinf(x,out) isreal(x) isrealobj(x) isscalar(element) issubdtype(arg1,arg2)
    ix_(*args) kaiser(M,beta) kron(a,b) lexsort(keys) linspace(start,stop,num,endpoint,retstep,dtype,axis)
    logspace(start,stop,num,endpoint,base,dtype,axis) mask_indices(n,mask_func,k)
    matmul(*args,axes,axis,keepdims,casting,dtype,signature,order,out) matrix_transpose(x)
    max(a,axis,out,keepdims) mean(a,axis,dtype,out,keepdims) median(a,axis,out,overwrite_input,keepdims)
    meshgrid(*xi,**kwargs) min(a,axis,out,keepdims) min_scalar_type(a) moveaxis(a,source,destination)
    nan_to_num(x,copy,nan,posinf,neginf) nanargmax(a,axis,dtype,out,keepdims)
    nanargmin(a,axis,dtype,out,keepdims) nancumprod(a,axis,dtype,out) nancumsum(a,axis,dtype,out)
    nanmax(a,axis,out,keepdims) nanmean(a,axis,dtype,out,keepdims)
    nanmedian(a,axis,out,overwrite_input,keepdims) nanmin(a,axis,out,keepdims)
    nanprod(a,axis,dtype,out,keepdims) nanstd(a,axis,dtype,out,ddof,keepdims)
    nansum(a,axis,dtype,out,keepdims) nanvar(a,axis,dtype,out,ddof,keepdims) ndim(a) nonzero(a)
    ones(shape,dtype,order) ones_like(a,dtype,order,subok,shape) outer(a,b,out) packbits(a,axis,bitorder)
    pad(array,pad_width,mode,**kwargs) partition(a,kth,axis)
    percentile(a,q,axis,out,overwrite_input,method,keepdims,interpolation) permute_dims(a,axes)
    place(arr,mask,vals) prod(a,axis,dtype,out,keepdims) promote_types(type1,type2) ptp(a,axis,out,keepdims)
    put(a,ind,v,mode) put_along_axis(arr,indices,values,axis) putmask(a,mask,values)
    quantile(a,q,axis,out,overwrite_input,method,keepdims,interpolation) ravel(a,order)
    ravel_multi_index(multi_index,dims,mode,order) real(val) real_if_close(a,tol) repeat(a,repeats,axis)
    reshape(a,newshape,order,copy) resize(a,new_shape) result_type(*arrays_and_dtypes) roll(a,shift,axis)
    rollaxis(a,axis,start) rot90(a,k,axes) round(a,decimals,out) row_stack(tup,dtype,casting)
    searchsorted(a,v,side,sorter) select(condlist,choicelist,default) setdiff1d(ar1,ar2,assume_unique)
    setxor1d(ar1,ar2,assume_unique) shape(a) size(a,axis) sort(a,axis,kind) sort_complex(a)
    split(ary,indices_or_sections,axis) squeeze(a,axis) stack(tup,axis,out,dtype,casting)
    std(a,axis,dtype,out,ddof,keepdims) sum(a,axis,dtype,out,keepdims) swapaxes(a,axis1,axis2)
    take(a,indices,axis,out) take_along_axis(a,indices,axis) tensordot(a,b,axes) tile(A,reps)
    trace(a,offset,axis1,axis2,dtype,out) transpose(a,axes) trapezoid(y,x,dx,axis) tri(N,M,k,dtype)
    tril(m,k) tril_indices(n,k,m) tril_indices_from(arr,k) trim_zeros(filt,trim) triu(m,k)
    triu_indices(n,k,m) triu_indices_from(arr,k) union1d(arr1,arr2)
    unique(ar,return_index,return_inverse,return_counts,axis,equal_nan) unique_all(x) unique_counts(x)
    unique_inverse(x) unique_values(x) unpackbits(a,axis,bitorder) unravel_index(indices,dims,order)
    unwrap(p,discont,axis,period) var(a,axis,dtype,out,ddof,keepdims) vdot(a,b)
    vsplit(ary,indices_or_sections) vstack(tup,dtype,casting) where(condition,x,y) zeros(shape,dtype,order)
    zeros_like(a,dtype,order,subok,shape)
"""

#: Methods of arrays.
_METHODS: Final = """
    all(axis,out,keepdims) any(axis,out,keepdims) argmax(axis,out,dtype,keepdims)
    argmin(axis,out,dtype,keepdims) argpartition(kth,axis) argsort(axis,kind)
    astype(dtype,order,casting,subok,copy) choose(choices,out,mode) clip(min,max,out)
    compress(condition,axis,out) conj() conjugate() copy(order) cumprod(axis,dtype,out)
    cumsum(axis,dtype,out) diagonal(offset,axis1,axis2) dot(b,out) fill(value) flatten(order)
    max(axis,out,keepdims) mean(axis,dtype,out,keepdims) min(axis,out,keepdims) nonzero()
    partition(kth,axis) prod(axis,dtype,out,keepdims) ptp(axis,out,keepdims) put(indices,values,mode)
    ravel(order) repeat(repeats,axis) reshape(*shape,order,copy) round(decimals,out)
    searchsorted(v,side,sorter) sort(axis,kind) squeeze(axis) std(axis,dtype,out,ddof,keepdims)
    sum(axis,dtype,out,keepdims) swapaxes(axis1,axis2) take(indices,axis,out)
    trace(offset,axis1,axis2,dtype,out) transpose(*axes) var(axis,dtype,out,ddof,keepdims)
"""

#: What `cupyx.scipy.special` has of `scipy.special`.
SPECIAL: Final = _words("""
    bdtr bdtrc bdtri beta betainc betaincinv betaln binom boxcox boxcox1p btdtr btdtri cbrt chdtr chdtrc
    chdtri cosdg cosm1 cotdg digamma ellipeinc ellipj ellipk ellipkinc ellipkm1 entr erf erfc erfcinv
    erfcx erfinv exp1 exp10 exp2 expi expit expm1 expn exprel fdtr fdtrc fdtri gamma gammainc gammaincc
    gammainccinv gammaincinv gammaln gammasgn gdtr gdtrc huber i0 i0e i1 i1e inv_boxcox inv_boxcox1p j0
    j1 k0 k0e k1 k1e kl_div lambertw log1p log_expit log_ndtr log_softmax loggamma logit logsumexp lpmv
    multigammaln nbdtr nbdtrc nbdtri ndtr ndtri pdtr pdtrc pdtri poch polygamma pseudo_huber psi radian
    rel_entr rgamma round shichi sici sinc sindg softmax sph_harm sph_harm_y spherical_yn tandg
    wright_bessel xlog1py xlogy y0 y1 yn zeta zetac
    """)

#: Of `linalg` and `fft` what kernels may use.
LINALG: Final = _words("cholesky det eigh eigvalsh inv norm pinv qr slogdet solve svd")
FFT: Final = _words("""
    fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2
    rfftfreq rfftn
    """)

#: Element types that CuPy's arrays have, as NumPy names them. (bfloat16 is there only for what lists it.)
DTYPES: Final = _words("""
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128
    """)


def _parsed(text: str) -> dict[str, tuple[str, ...]]:
    found = {}
    for entry in text.split():
        name, _, parameters = entry.partition("(")
        found[name] = tuple(p for p in parameters.rstrip(")").split(",") if p)
    return found


#: {name: parameters}
FUNCTIONS: Final = _parsed(_FUNCTIONS)
METHODS: Final = _parsed(_METHODS)

__all__ = ["DTYPES", "FFT", "FUNCTIONS", "LINALG", "METHODS", "SPECIAL", "UFUNCS"]
