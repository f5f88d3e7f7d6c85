/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of streams and of kernels' nodes.  The value is a union; which member
 * holds, and so whether it is a handle, follows from the attribute.
 */
#include "drv.h"
#include "gp_base.h"
#include "wire_api.h"
#include "wrk.h"
#include "wrk_args.h"
#include "wrk_struct.h"

#include <string.h>

static CUresult
value_in(struct wrk *w, CUlaunchAttributeID id, const CUlaunchAttributeValue *value,
         CUlaunchAttribute *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->id = id;
    ret->value = *value;
    return wrk_fix_in_CUlaunchAttribute(w, ret);
}

static void
value_out(struct wrk *w, CUlaunchAttribute *attr, void *to)
{
    wrk_fix_out_CUlaunchAttribute(w, attr);
    memcpy(to, &attr->value, sizeof(attr->value));
}

CUresult
h_cuStreamSetAttribute(struct wrk *w, const struct wire_args_cuStreamSetAttribute *a,
                       struct wrk_reply *rep)
{
    CUlaunchAttribute attr;
    CUresult r = value_in(w, a->attr, a->param, &attr);

    (void)rep;
    return r == CUDA_SUCCESS
               ? WRK_CALL(w, cuStreamSetAttribute, a->hStream, attr.id, &attr.value)
               : r;
}

CUresult
h_cuStreamGetAttribute(struct wrk *w, const struct wire_args_cuStreamGetAttribute *a,
                       struct wrk_reply *rep)
{
    struct wire_cuStreamGetAttribute_rep *body = rep->body;
    CUlaunchAttributeValue none = {0};
    CUlaunchAttribute attr;
    CUresult r = value_in(w, a->attr, &none, &attr);

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuStreamGetAttribute, a->hStream, attr.id, &attr.value);
    if (r == CUDA_SUCCESS)
        value_out(w, &attr, body->value);
    return r;
}

CUresult
h_cuGraphKernelNodeSetAttribute(struct wrk *w,
                                const struct wire_args_cuGraphKernelNodeSetAttribute *a,
                                struct wrk_reply *rep)
{
    CUlaunchAttribute attr;
    CUresult r = value_in(w, a->attr, a->value, &attr);

    (void)rep;
    return r == CUDA_SUCCESS ? WRK_CALL(w, cuGraphKernelNodeSetAttribute, a->hNode,
                                        attr.id, &attr.value)
                             : r;
}

CUresult
h_cuGraphKernelNodeGetAttribute(struct wrk *w,
                                const struct wire_args_cuGraphKernelNodeGetAttribute *a,
                                struct wrk_reply *rep)
{
    struct wire_cuGraphKernelNodeGetAttribute_rep *body = rep->body;
    CUlaunchAttributeValue none = {0};
    CUlaunchAttribute attr;
    CUresult r = value_in(w, a->attr, &none, &attr);

    if (r == CUDA_SUCCESS)
        r = WRK_CALL(w, cuGraphKernelNodeGetAttribute, a->hNode, attr.id, &attr.value);
    if (r == CUDA_SUCCESS)
        value_out(w, &attr, body->value_out);
    return r;
}
