"""A tiny random model of each transformers family that has the operator, its inputs, and the calls of one forward pass."""

import torch

HIDDEN = 32


def resnet(config):
    return config(
        embedding_size=8,
        hidden_sizes=[8, 12, 16, 24],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )


def hgnet(t, first=2):
    return t.HGNetV2Config(
        stem_channels=[3, 8, 8],
        stage_in_channels=[8, 12, 16, 20],
        stage_mid_channels=[8, 8, 8, 8],
        stage_out_channels=[12, 16, 20, 24],
        stage_num_blocks=[1, 1, 1, 1],
        stage_numb_of_layers=[1, 1, 1, 1],
        stage_downsample=[False, True, True, True],
        stage_light_block=[False, False, False, False],
        stage_kernel_size=[3, 3, 3, 3],
        embedding_size=8,
        hidden_sizes=[12, 16, 20, 24],
        depths=[1, 1, 1, 1],
        out_features=[f"stage{stage}" for stage in range(first, 5)],
    )


def image(size=64):
    return dict(pixel_values=torch.randn(1, 3, size, size))


def detr(t):
    config = t.DeformableDetrConfig(
        backbone_config=resnet(t.ResNetConfig),
        d_model=HIDDEN,
        num_queries=10,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        with_box_refine=True,
    )
    return t.DeformableDetrForObjectDetection(config), image(96)


RT = dict(
    encoder_hidden_dim=HIDDEN,
    encoder_in_channels=[12, 16, 24],
    encoder_ffn_dim=HIDDEN,
    encoder_attention_heads=4,
    d_model=HIDDEN,
    num_queries=10,
    decoder_in_channels=[HIDDEN] * 3,
    decoder_ffn_dim=HIDDEN,
    decoder_layers=2,
    decoder_attention_heads=4,
    num_denoising=0,
    hidden_expansion=0.5,
)
HG = RT | dict(encoder_in_channels=[16, 20, 24])


def rt_detr(t):
    return t.RTDetrForObjectDetection(t.RTDetrConfig(backbone_config=resnet(t.RTDetrResNetConfig), **RT)), image()


def rt_detr_v2(t, **options):
    config = t.RTDetrV2Config(backbone_config=resnet(t.RTDetrResNetConfig), **RT, **options)
    return t.RTDetrV2ForObjectDetection(config), image()


def d_fine(t):
    config = t.DFineConfig(backbone_config=hgnet(t), decoder_n_points=[3, 6, 3], lqe_hidden_dim=8, **HG)
    return t.DFineForObjectDetection(config), image()


def deimv2(t):
    config = t.Deimv2Config(backbone_config=hgnet(t), decoder_n_points=[3, 6, 3], lqe_hidden_dim=8, **HG)
    return t.Deimv2ForObjectDetection(config), image()


def pp_doclayout_v2(t):
    from transformers.models.pp_doclayout_v2 import configuration_pp_doclayout_v2 as configuration

    order = configuration.PPDocLayoutV2ReadingOrderConfig(
        hidden_size=HIDDEN,
        num_attention_heads=4,
        intermediate_size=HIDDEN,
        num_hidden_layers=1,
        coordinate_size=6,
        shape_size=4,
        num_classes=3,
        global_pointer_head_size=8,
    )
    config = t.PPDocLayoutV2Config(backbone_config=hgnet(t), reading_order_config=order, num_labels=3, **HG)
    config.class_thresholds, config.class_order = [0.5] * 3, [0, 1, 2]
    return t.PPDocLayoutV2ForObjectDetection(config), image()


def pp_doclayout_v3(t):
    masks = dict(mask_feature_channels=[8, 8], num_prototypes=4, x4_feat_dim=12)
    config = t.PPDocLayoutV3Config(backbone_config=hgnet(t, first=1), **masks, **HG)
    return t.PPDocLayoutV3ForObjectDetection(config), image()


def pp_doclayout_v4(t):
    config = t.PPDocLayoutV4Config(backbone_config=hgnet(t), hidden_size=HIDDEN, **HG)
    return t.PPDocLayoutV4ForObjectDetection(config), image()


def rf_detr(t):
    from transformers.models.rf_detr.configuration_rf_detr import RfDetrDinov2Config

    vit = RfDetrDinov2Config(
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=64,
        patch_size=8,
        num_windows=2,
        out_features=["stage1", "stage2"],
    )
    config = t.RfDetrConfig(
        backbone_config=vit,
        d_model=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        decoder_layers=2,
        decoder_self_attention_heads=4,
        decoder_cross_attention_heads=4,
        decoder_n_points=2,
        num_queries=10,
        group_detr=2,
    )
    return t.RfDetrForObjectDetection(config), image() | dict(pixel_mask=torch.ones(1, 64, 64, dtype=torch.long))


def lw_detr(t):
    from transformers.models.lw_detr.configuration_lw_detr import LwDetrViTConfig

    vit = LwDetrViTConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=64,
        pretrain_image_size=64,
        patch_size=8,
        num_windows=4,
        window_block_indices=[0],
        out_indices=[1, 2],
    )
    config = t.LwDetrConfig(
        backbone_config=vit,
        projector_scale_factors=[1.0],
        d_model=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        decoder_layers=2,
        decoder_self_attention_heads=4,
        decoder_cross_attention_heads=4,
        decoder_n_points=2,
        num_queries=10,
        group_detr=2,
    )
    return t.LwDetrForObjectDetection(config), image() | dict(pixel_mask=torch.ones(1, 64, 64, dtype=torch.long))


def swin(t, **options):
    return t.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=2,
        **options,
    )


def dino(t, name):
    text = t.BertConfig(vocab_size=1100, hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=2, intermediate_size=HIDDEN)
    config = getattr(t, f"{name}Config")(
        backbone_config=swin(t, out_features=["stage2", "stage3", "stage4"]),
        text_config=text,
        d_model=HIDDEN,
        num_queries=10,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        max_text_len=8,
    )
    ids = torch.tensor([[101, 7, 1012, 8, 1012, 102]])
    inputs = image(96) | dict(input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids))
    return getattr(t, f"{name}ForObjectDetection")(config), inputs


def omdet_turbo(t):
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
    config = t.OmDetTurboConfig(
        text_config=text,
        backbone_config=swin(t, out_indices=[2, 3, 4]),
        image_size=64,
        apply_layernorm_after_vision_backbone=False,
        text_projection_in_dim=2 * HIDDEN,
        text_projection_out_dim=2 * HIDDEN,
        task_encoder_hidden_dim=HIDDEN,
        class_embed_dim=2 * HIDDEN,
        num_queries=10,
        encoder_hidden_dim=HIDDEN,
        vision_features_channels=[HIDDEN] * 3,
        encoder_in_channels=[16, 32, 64],
        encoder_attention_heads=4,
        encoder_dim_feedforward=HIDDEN,
        decoder_hidden_dim=HIDDEN,
        decoder_num_heads=4,
        decoder_num_layers=2,
        decoder_dim_feedforward=HIDDEN,
    )
    ids = torch.tensor([[1, 7, 2, 0], [1, 9, 5, 2]])
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
    return t.OmDetTurboForObjectDetection(config), image() | dict(
        classes_input_ids=ids,
        classes_attention_mask=mask,
        tasks_input_ids=ids[:1],
        tasks_attention_mask=mask[:1],
        classes_structure=torch.tensor([2]),
    )


def mask2former(t):
    config = t.Mask2FormerConfig(
        backbone_config=swin(t, out_features=["stage1", "stage2", "stage3", "stage4"]),
        feature_size=HIDDEN,
        mask_feature_size=HIDDEN,
        hidden_dim=HIDDEN,
        encoder_feedforward_dim=HIDDEN,
        encoder_layers=2,
        decoder_layers=2,
        num_attention_heads=4,
        dim_feedforward=HIDDEN,
        num_queries=10,
    )
    return t.Mask2FormerForUniversalSegmentation(config), image(96)


def oneformer(t):
    config = t.OneFormerConfig(
        backbone_config=swin(t, out_features=["stage1", "stage2", "stage3", "stage4"]),
        hidden_dim=HIDDEN,
        conv_dim=HIDDEN,
        mask_dim=HIDDEN,
        encoder_feedforward_dim=HIDDEN,
        encoder_layers=2,
        decoder_layers=3,
        query_dec_layers=1,
        num_attention_heads=4,
        dim_feedforward=HIDDEN,
        num_queries=10,
        text_encoder_width=HIDDEN,
        text_encoder_context_length=8,
        text_encoder_num_layers=1,
        text_encoder_vocab_size=50,
        task_seq_len=8,
    )
    return t.OneFormerForUniversalSegmentation(config), image(96) | dict(task_inputs=torch.randint(1, 50, (1, 8)).float())


# Two layers of the decoder call the operator, of the encoder, or of both.
FAMILIES = {
    "deformable_detr": (detr, 4),
    "grounding_dino": (lambda t: dino(t, "GroundingDino"), 4),
    "mm_grounding_dino": (lambda t: dino(t, "MMGroundingDino"), 4),
    "rt_detr": (rt_detr, 2),
    "rt_detr_v2": (rt_detr_v2, 2),
    "d_fine": (d_fine, 2),
    "deimv2": (deimv2, 2),
    "rf_detr": (rf_detr, 2),
    "lw_detr": (lw_detr, 2),
    "omdet_turbo": (omdet_turbo, 2),
    "pp_doclayout_v2": (pp_doclayout_v2, 2),
    "pp_doclayout_v3": (pp_doclayout_v3, 2),
    "pp_doclayout_v4": (pp_doclayout_v4, 2),
    "mask2former": (mask2former, 2),
    "oneformer": (oneformer, 2),
}
