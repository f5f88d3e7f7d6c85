/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_reply.h"

#include "gp_utf8.h"

static void mask(ProtobufCMessage *message);

/* One value of @field; it is the message's own memory. */
static void
mask_value(const ProtobufCFieldDescriptor *field, void *value)
{
    char *text = value;

    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        mask(value);
    else if (*text) /* an empty one is a constant of the library */
        gp_utf8_mask(text);
}

/* Is the field there?  Of a oneof only one is, and the others share its place. */
static bool
is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *bytes = (const char *)message;

    return !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
           *(const uint32_t *)(const void *)(bytes + field->quantifier_offset) ==
               field->id;
}

/* All texts of @message, those of messages in it as well. */
static void
mask(ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    char *bytes = (char *)message;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        void **at = (void **)(void *)(bytes + field->offset);

        if ((field->type != PROTOBUF_C_TYPE_STRING &&
             field->type != PROTOBUF_C_TYPE_MESSAGE) ||
            !is_set(message, field))
            continue;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t n = *(size_t *)(void *)(bytes + field->quantifier_offset);
            void **list = *at;

            for (size_t k = 0; k < n; k++)
                mask_value(field, list[k]);
        } else if (*at) {
            mask_value(field, *at);
        }
    }
}

Gpupool__Ctl__CtlReply *
cli_reply_unpack(const void *data, size_t len)
{
    Gpupool__Ctl__CtlReply *reply = gpupool__ctl__ctl_reply__unpack(NULL, len, data);

    if (reply)
        mask(&reply->base);
    return reply;
}

void
cli_reply_free(Gpupool__Ctl__CtlReply *reply)
{
    gpupool__ctl__ctl_reply__free_unpacked(reply, NULL);
}
