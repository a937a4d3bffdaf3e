"""A tiny random model of each transformers family that has the operator, its inputs, and the calls of one forward pass."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers as t
from transformers.models.lw_detr.configuration_lw_detr import LwDetrViTConfig
from transformers.models.pp_doclayout_v2.configuration_pp_doclayout_v2 import PPDocLayoutV2ReadingOrderConfig
from transformers.models.rf_detr.configuration_rf_detr import RfDetrDinov2Config

HIDDEN, HEADS, QUERIES, LAYERS = 32, 4, 10, 2
ENCODER = dict(encoder_layers=LAYERS, encoder_ffn_dim=HIDDEN, encoder_attention_heads=HEADS)
DECODER = dict(d_model=HIDDEN, num_queries=QUERIES, decoder_layers=LAYERS, decoder_ffn_dim=HIDDEN)
DETR = ENCODER | DECODER | dict(decoder_attention_heads=HEADS)


class Family(NamedTuple):
    """`name` is the beginning of the names of its classes in transformers."""

    name: str
    calls: int
    options: Callable[[], dict[str, Any]]  # of the tiny configuration
    inputs: Callable[[], dict[str, Any]]
    head: str = "ForObjectDetection"

    def config(self, **options):
        return getattr(t, f"{self.name}Config")(**options)

    def model(self, config):
        return getattr(t, self.name + self.head)(config).eval()

    def tiny(self, **options):
        """The tiny model with these options too, and its inputs."""
        return self.model(self.config(**self.options(), **options)), self.inputs()


def resnet(config):
    sizes = dict(embedding_size=8, hidden_sizes=[8, 12, 16, 24], depths=[1, 1, 1, 1], layer_type="basic")
    return config(**sizes, out_features=["stage2", "stage3", "stage4"])


def hgnet(first_stage=2):
    channels = [12, 16, 20, 24]
    return t.HGNetV2Config(
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, *channels[:-1]],
        stage_mid_channels=[8] * 4,
        stage_out_channels=channels,
        stage_num_blocks=[1] * 4,
        stage_numb_of_layers=[1] * 4,
        stage_downsample=[False, True, True, True],
        stage_light_block=[False] * 4,
        stage_kernel_size=[3] * 4,
        embedding_size=8,
        hidden_sizes=channels,
        depths=[1] * 4,
        out_features=[f"stage{stage}" for stage in range(first_stage, 5)],
    )


def swin(**options):
    sizes = dict(image_size=64, patch_size=4, embed_dim=8, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=2)
    return t.SwinConfig(**sizes, **options)


def vit(config, **options):
    sizes = dict(hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=HEADS, image_size=64, patch_size=8)
    return config(**sizes, **options)


def rt_detr(backbone, channels=(12, 16, 24), **options):
    """RT-DETR and what is made of it, which name the encoder's width apart."""
    return DECODER | dict(
        backbone_config=backbone,
        encoder_hidden_dim=HIDDEN,
        encoder_in_channels=list(channels),
        encoder_ffn_dim=HIDDEN,
        encoder_attention_heads=HEADS,
        decoder_in_channels=[HIDDEN] * 3,
        decoder_attention_heads=HEADS,
        num_denoising=0,
        hidden_expansion=0.5,
        **options,
    )


def with_hgnet(first_stage=2, **options):
    return rt_detr(hgnet(first_stage), channels=(16, 20, 24), **options)


def d_fine():
    return with_hgnet(decoder_n_points=[3, 6, 3], lqe_hidden_dim=8)


def pp_doclayout_v2():
    order = PPDocLayoutV2ReadingOrderConfig(
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        num_hidden_layers=1,
        coordinate_size=6,
        shape_size=4,
        num_classes=3,
        global_pointer_head_size=8,
    )
    return with_hgnet(reading_order_config=order, num_labels=3, class_thresholds=[0.5] * 3, class_order=[0, 1, 2])


def lw_detr(backbone, **options):
    heads = dict(decoder_self_attention_heads=HEADS, decoder_cross_attention_heads=HEADS)
    return DECODER | heads | dict(backbone_config=backbone, decoder_n_points=2, group_detr=2, **options)


def grounding_dino():
    sizes = dict(hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=2, intermediate_size=HIDDEN)
    backbone = swin(out_features=["stage2", "stage3", "stage4"])
    return DETR | dict(backbone_config=backbone, text_config=t.BertConfig(vocab_size=1100, **sizes), max_text_len=8)


def omdet_turbo():
    text = t.CLIPTextConfig(
        vocab_size=50,
        hidden_size=2 * HIDDEN,
        intermediate_size=HIDDEN,
        num_hidden_layers=1,
        num_attention_heads=2,
        projection_dim=HIDDEN,
        max_position_embeddings=16,
        eos_token_id=2,
    )
    return dict(
        text_config=text,
        backbone_config=swin(out_indices=[2, 3, 4]),
        image_size=64,
        apply_layernorm_after_vision_backbone=False,
        text_projection_in_dim=2 * HIDDEN,
        text_projection_out_dim=2 * HIDDEN,
        task_encoder_hidden_dim=HIDDEN,
        class_embed_dim=2 * HIDDEN,
        num_queries=QUERIES,
        encoder_hidden_dim=HIDDEN,
        vision_features_channels=[HIDDEN] * 3,
        encoder_in_channels=[16, 32, 64],
        encoder_attention_heads=HEADS,
        encoder_dim_feedforward=HIDDEN,
        decoder_hidden_dim=HIDDEN,
        decoder_num_heads=HEADS,
        decoder_num_layers=LAYERS,
        decoder_dim_feedforward=HIDDEN,
    )


def segmentation(decoder_layers, **options):
    return dict(
        backbone_config=swin(out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_dim=HIDDEN,
        encoder_feedforward_dim=HIDDEN,
        encoder_layers=LAYERS,
        decoder_layers=decoder_layers,
        num_attention_heads=HEADS,
        dim_feedforward=HIDDEN,
        num_queries=QUERIES,
        **options,
    )


def oneformer():
    text = dict(text_encoder_width=HIDDEN, text_encoder_context_length=8, text_encoder_num_layers=1, text_encoder_vocab_size=50)
    return segmentation(3, conv_dim=HIDDEN, mask_dim=HIDDEN, query_dec_layers=1, task_seq_len=8, **text)


def image(size=64, **others):
    return dict(pixel_values=torch.randn(1, 3, size, size), **others)


def image_and_mask():
    return image(pixel_mask=torch.ones(1, 64, 64, dtype=torch.long))


def image_and_text():
    ids = torch.tensor([[101, 7, 1012, 8, 1012, 102]])
    return image(96, input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids))


def image_and_classes():
    ids, mask = torch.tensor([[1, 7, 2, 0], [1, 9, 5, 2]]), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    tasks = dict(tasks_input_ids=ids[:1], tasks_attention_mask=mask[:1])
    return image(classes_input_ids=ids, classes_attention_mask=mask, classes_structure=torch.tensor([2]), **tasks)


SEGMENTATION = "ForUniversalSegmentation"
# The operator is in two layers of the decoder or of the encoder, or of both.
FAMILIES = {
    "deformable_detr": Family(
        "DeformableDetr", 4, lambda: DETR | dict(backbone_config=resnet(t.ResNetConfig), with_box_refine=True), lambda: image(96)
    ),
    "grounding_dino": Family("GroundingDino", 4, grounding_dino, image_and_text),
    "mm_grounding_dino": Family("MMGroundingDino", 4, grounding_dino, image_and_text),
    "rt_detr": Family("RTDetr", 2, lambda: rt_detr(resnet(t.RTDetrResNetConfig)), image),
    "rt_detr_v2": Family("RTDetrV2", 2, lambda: rt_detr(resnet(t.RTDetrResNetConfig)), image),
    "d_fine": Family("DFine", 2, d_fine, image),
    "deimv2": Family("Deimv2", 2, d_fine, image),
    "rf_detr": Family(
        "RfDetr",
        2,
        lambda: lw_detr(vit(RfDetrDinov2Config, num_windows=2, out_features=["stage1", "stage2"])),
        image_and_mask,
    ),
    "lw_detr": Family(
        "LwDetr",
        2,
        lambda: lw_detr(
            vit(LwDetrViTConfig, pretrain_image_size=64, num_windows=4, window_block_indices=[0], out_indices=[1, 2]),
            projector_scale_factors=[1.0],
        ),
        image_and_mask,
    ),
    "omdet_turbo": Family("OmDetTurbo", 2, omdet_turbo, image_and_classes),
    "pp_doclayout_v2": Family("PPDocLayoutV2", 2, pp_doclayout_v2, image),
    "pp_doclayout_v3": Family(
        "PPDocLayoutV3", 2, lambda: with_hgnet(1, mask_feature_channels=[8, 8], num_prototypes=4, x4_feat_dim=12), image
    ),
    "pp_doclayout_v4": Family("PPDocLayoutV4", 2, lambda: with_hgnet(hidden_size=HIDDEN), image),
    "mask2former": Family(
        "Mask2Former", 2, lambda: segmentation(2, feature_size=HIDDEN, mask_feature_size=HIDDEN), lambda: image(96), SEGMENTATION
    ),
    "oneformer": Family(
        "OneFormer", 2, oneformer, lambda: image(96, task_inputs=torch.randint(1, 50, (1, 8)).float()), SEGMENTATION
    ),
}
