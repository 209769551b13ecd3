"""What a report says beside its checks: sentences, tables of numbers, the data of pictures."""
