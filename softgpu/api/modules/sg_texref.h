/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface references: variables of a module that stand for a resource.
 *
 * Made when somebody asks for one; owned by the module, or by the caller when it was
 * made by cuTexRefCreate.  Lock held.
 */
#ifndef SG_TEXREF_H
#define SG_TEXREF_H

struct sg_module;

/* The module goes away; nothing of its context runs any more. */
void sg_texref_detach_module(const struct sg_module *module);

#endif
