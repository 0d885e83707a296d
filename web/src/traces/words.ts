/** Numbers of a row as short words. */

/** $0.0012, $3.20 */
export function money(dollars: number): string {
  if (dollars === 0) return '$0';
  if (dollars < 0.000_001) return '<$0.000001';
  return dollars < 0.1 ? `$${Number(dollars.toPrecision(2)).toFixed(6).replace(/0+$/, '')}` : `$${dollars.toFixed(2)}`;
}

/** 1 trace, 12 traces */
export const counted = (number: number, thing: string): string => `${number.toLocaleString('en')} ${thing}${number === 1 ? '' : 's'}`;
