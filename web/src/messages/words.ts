/** Numbers as short words: sizes, times, tokens. */
import type { Told } from '@/chat/message';

/** 312, 4.1k, 1.2M */
export function count(number: number): string {
  if (number < 1000) return String(Math.round(number));
  if (number < 999_500) return `${trimmed(number / 1000)}k`;
  return `${trimmed(number / 1_000_000)}M`;
}

/** Bytes or characters: 900 B, 4.1 KB, 1.2 MB */
export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 999_500) return `${trimmed(bytes / 1000)} KB`;
  return `${trimmed(bytes / 1_000_000)} MB`;
}

/** 0.3 s, 12 s, 2 min 5 s */
export function duration(seconds: number): string {
  if (seconds < 10) return `${trimmed(seconds)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
}

const trimmed = (number: number): string => (number < 10 ? number.toFixed(1).replace('.0', '') : String(Math.round(number)));

/** What an answer took: "312 tokens · 1.4 s". */
export function cost({ usage, seconds }: Told): string {
  const tokens = usage && (usage.totalTokens ?? (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0));
  return [tokens ? `${count(tokens)} tokens` : '', seconds === undefined ? '' : duration(seconds)].filter(Boolean).join(' · ');
}

/** The same in full, for the hint. */
export function costInFull({ usage, seconds }: Told): string {
  const counted: [number | undefined, string][] = [
    [usage?.inputTokens, 'in'],
    [usage?.cachedInputTokens, 'cached'],
    [usage?.outputTokens, 'out'],
    [usage?.reasoningTokens, 'reasoning'],
  ];
  const tokens = counted.flatMap(([number, word]) => (number === undefined ? [] : [`${number} ${word}`])).join(', ');
  return [tokens && `Tokens: ${tokens}`, seconds === undefined ? '' : `${seconds.toFixed(2)} s`].filter(Boolean).join(' · ');
}
