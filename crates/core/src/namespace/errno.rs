//! The error numbers in the namespace's replies, as the wire carries them.

use rustix::io::Errno as System;
use weir_placement::online::Refusal;
use weir_wire::Errno;

macro_rules! numbers {
    ($($name:ident = $system:ident),* $(,)?) => {
        $(
            #[doc = concat!("See errno(3): `", stringify!($name), "`.")]
            pub const $name: Errno = Errno(System::$system.raw_os_error() as u16);
        )*
    };
}

numbers! {
    EPERM = PERM,
    ENOENT = NOENT,
    EINTR = INTR,
    EIO = IO,
    ENXIO = NXIO,
    E2BIG = TOOBIG,
    EBADF = BADF,
    EAGAIN = AGAIN,
    EACCES = ACCESS,
    EBUSY = BUSY,
    EEXIST = EXIST,
    EXDEV = XDEV,
    ENOTDIR = NOTDIR,
    EISDIR = ISDIR,
    EINVAL = INVAL,
    ENFILE = NFILE,
    ENOLCK = NOLCK,
    EFBIG = FBIG,
    ENOSPC = NOSPC,
    EDQUOT = DQUOT,
    EROFS = ROFS,
    EMLINK = MLINK,
    ERANGE = RANGE,
    ENAMETOOLONG = NAMETOOLONG,
    ENOTEMPTY = NOTEMPTY,
    ELOOP = LOOP,
    ENODATA = NODATA,
    EOPNOTSUPP = OPNOTSUPP,
    ESTALE = STALE,
    EKEYEXPIRED = KEYEXPIRED,
    EHOSTDOWN = HOSTDOWN,
}

/// The error number of a refused placement.
pub(crate) fn of_refusal(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Layout => EINVAL,
        Refusal::Unknown => ENXIO,
        Refusal::Dead => EHOSTDOWN,
        Refusal::Full => ENOSPC,
    }
}
