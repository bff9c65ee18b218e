/*
 * Preloaded into User-Mode Linux, which lets the programs of a guest run under ptrace. Two of its
 * requests are changed:
 *
 * PTRACE_SETREGSET, or else it panics ("put_fp_registers") at its first program on a processor with
 * AMX. It keeps the vector registers of a program in a buffer of fixed size (2.7 KB in 6.1). It may
 * read less than there is, but the machine takes back only the whole: with AMX, 11 KB. So what it
 * puts back is made up to the whole size. The rest may be zeros: the header of the saved state,
 * which is in front, says that those registers are not in use. Where the buffer is large enough
 * nothing is changed.
 *
 * PTRACE_SETOPTIONS, or else a guest that is killed would let its programs go on, as root and with
 * the machine's kernel instead of the guest's. With PTRACE_O_EXITKILL they end with it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

/* What User-Mode Linux calls it; the C library no longer does. */
#define PTRACE_OLDSETOPTIONS 21

typedef long (*ptrace_function)(int request, ...);

static ptrace_function real_ptrace;
static char whole[65536] __attribute__((aligned(64)));
static size_t whole_size;

__attribute__((constructor)) static void find_ptrace(void)
{
	real_ptrace = (ptrace_function) dlsym(RTLD_NEXT, "ptrace");
}

/* How many bytes the machine keeps for a program. */
static size_t ask_size(pid_t pid)
{
	struct iovec io = { whole, sizeof whole };

	if (real_ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &io) != 0)
		return 0;
	memset(whole, 0, sizeof whole);
	return io.iov_len;
}

static long put_vector_registers(pid_t pid, struct iovec *given)
{
	struct iovec io = { whole, whole_size };

	memcpy(whole, given->iov_base, given->iov_len);
	return real_ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &io);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;

	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);

	if (request == PTRACE_SETREGSET && (long) address == NT_X86_XSTATE) {
		if (whole_size == 0)
			whole_size = ask_size(pid);
		if (whole_size > ((struct iovec *) data)->iov_len)
			return put_vector_registers(pid, data);
	}
	if (request == PTRACE_SETOPTIONS || request == PTRACE_OLDSETOPTIONS)
		data = (void *) ((long) data | PTRACE_O_EXITKILL);
	return real_ptrace(request, pid, address, data);
}
