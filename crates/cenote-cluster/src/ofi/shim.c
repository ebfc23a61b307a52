/* The part of libfabric that memory nodes and their clients use, as functions: most of libfabric's interface is inline, so a
 * binding has to be C. Builds with 1.17 and with 2.x.
 *
 * An endpoint is of type RDM, with everything that it needs of its own: fabric, domain, address vector, completion queue. One thread
 * uses it. Progress is manual: nothing happens to memory, and nothing is sent or received, but inside calls of these functions
 * (on hardware the card does it).
 *
 * Every function returns 0 or more, or the negative of an error number of libfabric. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define VERSION FI_VERSION(1, 17)
/* Remote completion: without it a write completes before it arrives, and one that is refused reports nothing. */
#define FLAGS (FI_COMPLETION | FI_DELIVERY_COMPLETE)

struct cenote_ofi {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    int fd;
};

/* What is to be done: `context` is 64 bytes that the provider may use until the operation has completed, and its name then. */
struct cenote_ofi_verb {
    void *context;
    uint64_t peer;
    uint64_t key;
    uint64_t at;
    void *local;
    size_t len;
};

void cenote_ofi_close(struct cenote_ofi *o)
{
    if (o->ep)
        fi_close(&o->ep->fid);
    if (o->cq)
        fi_close(&o->cq->fid);
    if (o->av)
        fi_close(&o->av->fid);
    if (o->domain)
        fi_close(&o->domain->fid);
    if (o->fabric)
        fi_close(&o->fabric->fid);
    if (o->info)
        fi_freeinfo(o->info);
    free(o);
}

static int open_parts(struct cenote_ofi *o, const char *provider, const char *host, int serves, const char **step)
{
    struct fi_av_attr av = { .type = FI_AV_TABLE };
    struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD, .size = 4096 };
    struct fi_info *hints = fi_allocinfo();
    int error;

    *step = "fi_getinfo";
    if (!hints)
        return -FI_ENOMEM;
    hints->caps = FI_RMA | FI_ATOMIC;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->tx_attr->op_flags = FLAGS;
    error = fi_getinfo(VERSION, host, serves ? NULL : "1", serves ? FI_SOURCE : 0, hints, &o->info);
    fi_freeinfo(hints);
    if (error)
        return error;
    *step = "fi_fabric";
    if ((error = fi_fabric(o->info->fabric_attr, &o->fabric, NULL)))
        return error;
    *step = "fi_domain";
    if ((error = fi_domain(o->fabric, o->info, &o->domain, NULL)))
        return error;
    *step = "fi_av_open";
    if ((error = fi_av_open(o->domain, &av, &o->av, NULL)))
        return error;
    *step = "fi_cq_open";
    if ((error = fi_cq_open(o->domain, &cq, &o->cq, NULL)))
        return error;
    *step = "fi_endpoint";
    if ((error = fi_endpoint(o->domain, o->info, &o->ep, NULL)))
        return error;
    *step = "fi_ep_bind";
    if ((error = fi_ep_bind(o->ep, &o->av->fid, 0)))
        return error;
    if ((error = fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV)))
        return error;
    *step = "fi_enable";
    if ((error = fi_enable(o->ep)))
        return error;
    *step = "fi_control";
    return fi_control(&o->cq->fid, FI_GETWAIT, &o->fd);
}

/* Opens an endpoint: at an address of this machine, or as one that will reach an address. `step` names the call that failed. */
int cenote_ofi_open(const char *provider, const char *host, int serves, struct cenote_ofi **out, const char **step)
{
    struct cenote_ofi *o = calloc(1, sizeof *o);
    int error;

    *step = "calloc";
    if (!o)
        return -FI_ENOMEM;
    error = open_parts(o, provider, host, serves, step);
    if (error)
        cenote_ofi_close(o);
    else
        *out = o;
    return error;
}

const char *cenote_ofi_error(int error)
{
    return fi_strerror(error);
}

/* Readable when there may be something to do; to be waited for only after cenote_ofi_may_wait has said so. */
int cenote_ofi_fd(const struct cenote_ofi *o)
{
    return o->fd;
}

int cenote_ofi_may_wait(struct cenote_ofi *o)
{
    struct fid *fids[1] = { &o->cq->fid };

    return fi_trywait(o->fabric, fids, 1) == 0;
}

/* The endpoint's address, for others. `len` says how much room there is, and then how long it is. */
int cenote_ofi_name(struct cenote_ofi *o, void *name, size_t *len)
{
    return fi_getname(&o->ep->fid, name, len);
}

/* Another endpoint's address, of `len` bytes. */
int cenote_ofi_peer(struct cenote_ofi *o, const void *name, size_t len, uint64_t *peer)
{
    fi_addr_t address;
    char own[256];
    size_t own_len = sizeof own;
    int error = fi_getname(&o->ep->fid, own, &own_len);

    if (error)
        return error;
    /* fi_av_insert knows no length: an address of another form must not be read past its end. */
    if (own_len != len)
        return -FI_EINVAL;
    if (fi_av_insert(o->av, name, 1, &address, 0, NULL) != 1)
        return -FI_EINVAL;
    *peer = address;
    return 0;
}

/* Lets others read and write memory by a key: `wanted`, or one that the provider chooses. */
int cenote_ofi_register(struct cenote_ofi *o, void *memory, size_t len, uint64_t wanted, struct fid_mr **mr, uint64_t *key,
                        uint64_t *base)
{
    size_t size = o->info->domain_attr->mr_key_size;
    int error;

    if (size < sizeof wanted)
        wanted &= ((uint64_t)1 << 8 * size) - 1;
    error = fi_mr_reg(o->domain, memory, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, wanted, 0, mr, NULL);
    if (error)
        return error;
    *key = fi_mr_key(*mr);
    *base = o->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
    return 0;
}

int cenote_ofi_unregister(struct fid_mr *mr)
{
    return fi_close(&mr->fid);
}

int cenote_ofi_read(struct cenote_ofi *o, const struct cenote_ofi_verb *v)
{
    struct iovec local = { v->local, v->len };
    struct fi_rma_iov remote = { v->at, v->len, v->key };
    struct fi_msg_rma msg = { .msg_iov = &local, .iov_count = 1, .addr = v->peer, .rma_iov = &remote, .rma_iov_count = 1,
                              .context = v->context };

    return (int)fi_readmsg(o->ep, &msg, FI_COMPLETION);
}

int cenote_ofi_write(struct cenote_ofi *o, const struct cenote_ofi_verb *v)
{
    struct iovec local = { v->local, v->len };
    struct fi_rma_iov remote = { v->at, v->len, v->key };
    struct fi_msg_rma msg = { .msg_iov = &local, .iov_count = 1, .addr = v->peer, .rma_iov = &remote, .rma_iov_count = 1,
                              .context = v->context };

    return (int)fi_writemsg(o->ep, &msg, FLAGS);
}

/* How many bytes one atomic can read or write; 0 if the provider has no such atomics. */
size_t cenote_ofi_whole_max(struct cenote_ofi *o)
{
    size_t words, fetched, bytes, bytes_fetched;

    if (fi_atomicvalid(o->ep, FI_UINT64, FI_ATOMIC_WRITE, &words)
        || fi_fetch_atomicvalid(o->ep, FI_UINT64, FI_ATOMIC_READ, &fetched)
        || fi_atomicvalid(o->ep, FI_UINT8, FI_ATOMIC_WRITE, &bytes)
        || fi_fetch_atomicvalid(o->ep, FI_UINT8, FI_ATOMIC_READ, &bytes_fetched))
        return 0;
    words = (words < fetched ? words : fetched) * 8;
    bytes = bytes < bytes_fetched ? bytes : bytes_fetched;
    return words < bytes ? words : bytes;
}

/* Whether the provider has a compare-swap and a fetch-add of a word. */
int cenote_ofi_has_words(struct cenote_ofi *o)
{
    size_t count;

    return fi_compare_atomicvalid(o->ep, FI_UINT64, FI_CSWAP, &count) == 0
        && fi_fetch_atomicvalid(o->ep, FI_UINT64, FI_SUM, &count) == 0;
}

static struct fi_msg_atomic atomic(const struct cenote_ofi_verb *v, struct fi_ioc *local, struct fi_rma_ioc *remote, enum fi_op op)
{
    int words = v->len % 8 == 0 && v->at % 8 == 0;
    size_t count = words ? v->len / 8 : v->len;

    *local = (struct fi_ioc){ v->local, count };
    *remote = (struct fi_rma_ioc){ v->at, count, v->key };
    return (struct fi_msg_atomic){ .msg_iov = local, .iov_count = 1, .addr = v->peer, .rma_iov = remote, .rma_iov_count = 1,
                                   .datatype = words ? FI_UINT64 : FI_UINT8, .op = op, .context = v->context };
}

/* Reads as one atomic, of words if they are aligned. */
int cenote_ofi_read_whole(struct cenote_ofi *o, const struct cenote_ofi_verb *v)
{
    struct fi_ioc local, result;
    struct fi_rma_ioc remote;
    struct fi_msg_atomic msg = atomic(v, &local, &remote, FI_ATOMIC_READ);

    result = local;
    return (int)fi_fetch_atomicmsg(o->ep, &msg, &result, NULL, 1, FLAGS);
}

/* Writes as one atomic, of words if they are aligned. */
int cenote_ofi_write_whole(struct cenote_ofi *o, const struct cenote_ofi_verb *v)
{
    struct fi_ioc local;
    struct fi_rma_ioc remote;
    struct fi_msg_atomic msg = atomic(v, &local, &remote, FI_ATOMIC_WRITE);

    return (int)fi_atomicmsg(o->ep, &msg, FLAGS);
}

/* `local`: what the word becomes, what it has to be, and room for what it was; 8 bytes each. */
int cenote_ofi_swap(struct cenote_ofi *o, const struct cenote_ofi_verb *v)
{
    uint64_t *words = v->local;
    struct fi_ioc local, expected = { &words[1], 1 }, was = { &words[2], 1 };
    struct fi_rma_ioc remote;
    struct fi_msg_atomic msg = atomic(v, &local, &remote, FI_CSWAP);

    return (int)fi_compare_atomicmsg(o->ep, &msg, &expected, NULL, 1, &was, NULL, 1, FLAGS);
}

/* `local`: what is added, a word that is not used, and room for what the word was; 8 bytes each. */
int cenote_ofi_add(struct cenote_ofi *o, const struct cenote_ofi_verb *v)
{
    uint64_t *words = v->local;
    struct fi_ioc local, was = { &words[2], 1 };
    struct fi_rma_ioc remote;
    struct fi_msg_atomic msg = atomic(v, &local, &remote, FI_SUM);

    return (int)fi_fetch_atomicmsg(o->ep, &msg, &was, NULL, 1, FLAGS);
}

/* Makes progress. 1: an operation has completed, `context` names it, and `error` says how it went, 0 for well; 0: none has. */
int cenote_ofi_poll(struct cenote_ofi *o, void **context, int *error)
{
    struct fi_cq_entry entry;
    struct fi_cq_err_entry failed = { 0 };
    ssize_t got = fi_cq_read(o->cq, &entry, 1);

    if (got == 1) {
        *context = entry.op_context;
        *error = 0;
        return 1;
    }
    if (got == -FI_EAGAIN)
        return 0;
    if (got != -FI_EAVAIL)
        return (int)got;
    got = fi_cq_readerr(o->cq, &failed, 0);
    if (got == -FI_EAGAIN)
        return 0;
    if (got < 0)
        return (int)got;
    *context = failed.op_context;
    *error = failed.err;
    return 1;
}

/* The error numbers that callers tell apart. */
int cenote_ofi_is_again(int error)
{
    return error == -FI_EAGAIN;
}

int cenote_ofi_is_refusal(int error)
{
    return error == FI_EACCES || error == FI_EKEYREJECTED;
}
